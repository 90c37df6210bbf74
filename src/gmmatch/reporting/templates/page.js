// What happens when: the slider, the theme, and who redraws after which change.

function readBudget() {
  const slider = byId("slider");
  const kept = budget();
  const total = report.glance.usable;
  const value = report.curve.objective[state.budget];
  const closer = timesCloser();
  byId("kept").textContent = `${count(kept)} kept`;
  const words = [`${percent(kept / total)} of the rows`, `distance ${number(value)}`];
  if (closer) words.push(`${number(closer)} × closer than random`);
  byId("reading").textContent = words.join(" · ");
  slider.setAttribute("aria-valuetext", `${plural(kept, "row", "rows")} kept, distance ${number(value)}`);
  const share = budgets.length > 1 ? state.budget / (budgets.length - 1) : 1;
  slider.style.setProperty("--fill", `${100 * share}%`);
}

function applyTheme(dark) {
  document.documentElement.dataset.theme = dark ? "dark" : "light";
  byId("theme").setAttribute("aria-pressed", String(dark));
  byId("theme").textContent = dark ? "Light" : "Dark";
  byId("theme").setAttribute("aria-label", dark ? "Use light colours" : "Use dark colours");
}

// At most one redraw per frame, however fast the slider moves.
function oncePerFrame(draw) {
  let frame = 0;
  return () => {
    cancelAnimationFrame(frame);
    frame = requestAnimationFrame(draw);
  };
}

async function start() {
  Bokeh.set_log_level("warn");
  const system = matchMedia("(prefers-color-scheme: dark)");
  applyTheme(system.matches);
  const slider = byId("slider");
  slider.addEventListener("input", () => update({ budget: Number(slider.value) }));
  byId("budget").addEventListener("submit", (event) => event.preventDefault());
  byId("modes").addEventListener("change", (event) => update({ mode: event.target.value }));
  readBudget();
  drawPinned();
  drawLegend();
  fill(byId("galleries"), ...report.galleries.map(makeGallery));
  makeReview();
  if (report.labelled) {
    drawHead();
    drawClasses();
    byId("class-search").addEventListener("input", () => showClasses(0));
    listen(["budget"], oncePerFrame(drawClasses));
  }
  byId("search").addEventListener("input", drawFound);
  await makeMap();
  await makeCurve();
  restyleMap();
  ringAround();
  listen(["budget"], readBudget);
  for (const draw of [paint, drawLegend]) listen(["budget", "mode", "focus"], oncePerFrame(draw));
  listen(["mode"], () => {
    byId("modes").querySelector(`[value="${state.mode}"]`).checked = true;
    if (state.mode !== "class") update({ focus: -1 });
  });
  listen(["budget"], oncePerFrame(moveOnCurve));
  listen(["hovered", "pinned"], () => {
    ringAround();
    showHover();
  });
  listen(["pinned", "budget"], drawPinned);
  listen(["pinned", "selected", "budget"], drawSelected);
  listen(["pinned", "budget"], drawFound);
  const retheme = (dark) => {
    applyTheme(dark);
    restyleMap();
    restyleCurve();
  };
  byId("theme").addEventListener("click", () => retheme(document.documentElement.dataset.theme !== "dark"));
  system.addEventListener("change", (event) => retheme(event.matches));
  document.documentElement.dataset.ready = "true";
}

start();
