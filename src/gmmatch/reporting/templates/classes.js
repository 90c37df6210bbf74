// The table of classes: sorted, searched, a page at a time.

const PER_PAGE = 20;
const table = { sort: "rows", descending: true, page: 0 };
const suspectShare = (code) =>
  report.classes.judged[code] ? report.classes.suspects[code] / report.classes.judged[code] : -1;
const keptShare = (code) => classCounts[state.budget][code] / Math.max(report.classes.sizes[code], 1);
const suspectCell = (share) => [share < 0 ? "–" : percent(share), shareBar(share, "wrong")];
// Of each column its name, its heading, what it is sorted by, and what it shows of that.
const COLUMNS = [
  ["class", "Class", (code) => report.classes.names[code], className],
  ["rows", "Rows", (code) => report.classes.sizes[code], count],
  ["kept", "Kept", (code) => classCounts[state.budget][code], count],
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
  fill(byId("class-head"), ...heads);
}

function sortBy(name) {
  const again = table.sort === name;
  Object.assign(table, { sort: name, descending: again ? !table.descending : name !== "class", page: 0 });
  drawHead();
  drawClasses();
  byId("class-head").querySelector(`[data-sort="${name}"]`).focus();
}

function shareBar(share, kind) {
  const filled = element("i", { style: { width: `${100 * Math.min(Math.max(share, 0), 1)}%` } });
  return element("span", { class: `share ${kind}`, "aria-hidden": "true" }, filled);
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
    return element("tr", {}, ...cells);
  });
  fill(byId("class-body"), ...shown);
  const { left_out: leftOut } = report.classes;
  const left = leftOut ? `; the ${plural(leftOut, "smallest class is", "smallest classes are")} left out` : "";
  const words = `${plural(order.length, "class", "classes")}, page ${table.page + 1} of ${pages}${left}`;
  const turns = order.length > PER_PAGE || left ? pager(words, table.page, pages, showClasses) : [];
  fill(byId("class-pages"), ...turns);
}

function showClasses(page) {
  table.page = page;
  drawClasses();
}
