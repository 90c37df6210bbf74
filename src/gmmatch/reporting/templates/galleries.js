// Rows to look at, as tiles that find the row on the map.

const FIRST_TILES = matchMedia("(max-width: 640px)").matches
  ? { image: 9, text: 4, bare: 5 }
  : { image: 16, text: 8, bare: 12 };

function tile(at, kind) {
  const label = classOf(rows.code[at]);
  const why = kind === "first" ? `pick ${count(rows.rank[at] + 1)}` : `distance ${number(rows.distance[at])}`;
  const shown = [
    preview(at),
    element("span", { class: "name" }, nameOf(at)),
    report.labelled && element("span", { class: "tag", title: label }, label),
    element("span", { class: "why" }, why),
  ];
  return button(shown, () => showOnMap(at), { class: "tile", "data-at": at });
}

function makeGallery(gallery) {
  const look = report.content_kind || "bare";
  const tiles = element("div", { class: `tiles of-${look}` });
  const show = (amount) => fill(tiles, ...gallery.rows.slice(0, amount).map((at) => tile(at, gallery.name)));
  const first = FIRST_TILES[look];
  show(first);
  const showAll = (event) => {
    show(gallery.rows.length);
    event.target.remove();
    tiles.children[first].focus();
  };
  return element(
    "section",
    { class: "gallery", "aria-label": gallery.title, "data-gallery": gallery.name },
    element("header", {}, element("h3", {}, gallery.title), element("p", { class: "quiet" }, gallery.about)),
    gallery.rows.length ? tiles : hint("There is none."),
    gallery.rows.length > first && button(`Show all ${gallery.rows.length}`, showAll, { class: "more-button" }),
  );
}
