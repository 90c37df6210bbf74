// Every button, field, picture and section that has no name for those who do not see it.
() => [...document.querySelectorAll("button, input, [role=img], [role=group], img, section")].filter((found) => {
  const label = found.labels && [...found.labels].some((words) => words.textContent.trim());
  const by = found.getAttribute("aria-labelledby");
  return !(label || found.getAttribute("aria-label") || found.getAttribute("alt") || (found.tagName === "BUTTON" && found.textContent.trim())
    || (by && document.getElementById(by)) || found.getAttribute("aria-describedby"));
}).map((found) => found.outerHTML.slice(0, 80))
