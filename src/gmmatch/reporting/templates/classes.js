// The table of classes: sorted, searched, a page at a time.

const PER_PAGE = 20;
const table = { sort: "rows", descending: true, page: 0 };
const suspectShare = (code) =>
  report.classes.judged[code] ? report.classes.suspects[code] / report.classes.judged[code] : -1;
const keptShare = (code) => classCounts(state.budget)[code] / Math.max(report.classes.sizes[code], 1);
const suspectCell = (share) => [share < 0 ? "–" : percent(share), shareBar(share, "wrong")];
// Of each column its name, its heading, what it is sorted by, and what it shows of that.
const COLUMNS = [
  ["class", "Class", (code) => report.classes.names[code], className],
  ["rows", "Rows", (code) => report.classes.sizes[code], count],
  ["kept", "Kept", (code) => classCounts(state.budget)[code], count],
  ["share", "Share kept", keptShare, (share) => [percent(share), shareBar(share, "")]],
  ["suspects", "Suspects", suspectShare, suspectCell],
  ["wrong", "Wrong labels", (code) => report.classes.wrong[code], percent],
  ["distance", "Median distance", (code) => report.classes.median[code], number],
].filter(([name]) => name !== "wrong" || report.classes.wrong);

function classOrder() {
  const wanted = byId("class-search").value.trim().toLowerCase();
  const [, , value] = COLUMNS.find(([name]) => name === table.sort);
  const collator = new Intl.Collator("en", { numeric: true });
  const sign = table.descending ? -1 : 1;
  return report.classes.names
    .map((_, code) => code)
    .filter((code) => !wanted || report.classes.names[code].toLowerCase().includes(wanted))
    .sort((a, b) => {
      const [first, second] = [value(a), value(b)];
      return sign * (typeof first === "string" ? collator.compare(first, second) : first - second) || a - b;
    });
}

function drawHead() {
  const sorted = (name) => (table.sort !== name ? "none" : table.descending ? "descending" : "ascending");
  const heads = COLUMNS.map(([name, words]) => {
    const sort = button(words, () => sortBy(name), { "data-sort": name });
    return element("th", { scope: "col", "aria-sort": sorted(name) }, sort);
  });
  fill(byId("class-head"), ...heads, element("th", { scope: "col" }, "Distances: kept of all"));
}

function sortBy(name) {
  const again = table.sort === name;
  Object.assign(table, { sort: name, descending: again ? !table.descending : name !== "class", page: 0 });
  drawHead();
  drawClasses();
  byId("class-head").querySelector(`[data-sort="${name}"]`).focus();
}

// Kept rows in front of all rows, by distance, the tallest bar of the class as high as the picture.
function histogram(code, stretched) {
  const [all, kept] = [report.classes.histogram[code], report.classes.kept_histogram[code]];
  const [wide, high, tallest] = [9, 30, Math.max(...all, 1)];
  const { edges } = report.classes;
  const bar = (amount, bin, colour, opacity) => {
    const tall = Math.max((amount / tallest) * high, 1);
    const place = { x: bin * wide, y: high - tall, width: wide - 1.5, height: tall, rx: 1 };
    return amount ? element("rect", { ...place, fill: colour, opacity }) : null;
  };
  const bars = all.flatMap((amount, bin) => [
    bar(amount, bin, "var(--dropped)", 0.55),
    bar(kept[bin], bin, "var(--kept)", 1),
  ]);
  const [low, middle, end] = [edges[0], report.classes.median[code], edges[edges.length - 1]].map(number);
  const look = {
    class: "bars",
    width: wide * all.length,
    height: high,
    viewBox: `0 0 ${wide * all.length} ${high}`,
    preserveAspectRatio: stretched ? "none" : null,
    role: "img",
    "aria-label": `Distances from ${low} to ${end}; median ${middle}`,
  };
  return element("svg", look, ...bars);
}

function shareBar(share, kind) {
  const width = `${100 * Math.min(Math.max(share, 0), 1)}%`;
  return element("span", { class: `share ${kind}`, "aria-hidden": "true" }, element("i", { style: { width } }));
}

function className(name, code) {
  const show = () => {
    update({ mode: "class", focus: code });
    byId("map").scrollIntoView();
  };
  return button(name, show, { class: "name", title: `Show ${name} on the map` });
}

function drawClasses() {
  const order = classOrder();
  const pages = Math.max(Math.ceil(order.length / PER_PAGE), 1);
  table.page = Math.min(table.page, pages - 1);
  const shown = order.slice(table.page * PER_PAGE, (table.page + 1) * PER_PAGE).map((code) => {
    const cells = COLUMNS.map(([, , value, show]) => element("td", {}, ...[show(value(code), code)].flat()));
    return element("tr", {}, ...cells, element("td", {}, histogram(code)));
  });
  fill(byId("class-body"), ...shown);
  const { left_out: leftOut } = report.classes;
  const left = leftOut ? `; the ${plural(leftOut, "smallest class is", "smallest classes are")} left out` : "";
  const words = `${plural(order.length, "class", "classes")}, page ${table.page + 1} of ${pages}${left}`;
  const turn = (page) => {
    table.page = page;
    drawClasses();
  };
  fill(byId("class-pages"), ...(order.length > PER_PAGE || left ? pager(words, table.page, pages, turn) : []));
}
