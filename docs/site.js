// The theme lets wide tables scroll sideways; with this the keyboard can scroll them, too.
const reachable = () => {
  for (const table of document.querySelectorAll(".md-typeset__scrollwrap"))
    if (table.scrollWidth > table.clientWidth) table.tabIndex = 0;
    else table.removeAttribute("tabindex");
};
document$.subscribe(() => setTimeout(reachable));
addEventListener("resize", reachable);
