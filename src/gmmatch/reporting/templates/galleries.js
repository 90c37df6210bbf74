// Rows to look at, as tiles that find the row on the map.

const FIRST_TILES = matchMedia("(max-width: 640px)").matches
  ? { image: 9, text: 4, bare: 5 }
  : { image: 16, text: 8, bare: 12 };

function tile(at, kind) {
  const label = classOf(rows.code[at]);
  const why = kind === "first" ? `pick ${count(rows.rank[at] + 1)}` : `distance ${number(rows.distance[at])}`;
  return element(
    "button",
    {
      type: "button",
      class: "tile",
      "data-at": at,
      onclick: () => {
        pin(at);
        byId("map").scrollIntoView();
      },
    },
    preview(at),
    element("span", { class: "name" }, nameOf(at)),
    report.labelled ? element("span", { class: "swap" }, element("span", { class: "tag", title: label }, label)) : null,
    element("span", { class: "why" }, why),
  );
}

function makeGallery(gallery) {
  const look = report.content_kind || "bare";
  const tiles = element("div", { class: `tiles of-${look}` });
  const show = (amount) => fill(tiles, ...gallery.rows.slice(0, amount).map((at) => tile(at, gallery.name)));
  const first = FIRST_TILES[look];
  show(first);
  const more =
    gallery.rows.length > first
      ? element(
          "button",
          {
            type: "button",
            class: "more-button",
            onclick: (event) => {
              show(gallery.rows.length);
              event.target.remove();
              tiles.children[first].focus();
            },
          },
          `Show all ${gallery.rows.length}`,
        )
      : null;
  return element(
    "section",
    { class: "gallery", "aria-label": gallery.title, "data-gallery": gallery.name },
    element("header", {}, element("h3", {}, gallery.title), element("p", { class: "quiet" }, gallery.about)),
    gallery.rows.length ? tiles : element("p", { class: "hint" }, "There is none."),
    more,
  );
}
