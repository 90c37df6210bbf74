// Elements are made here alone. Texts become text nodes, so that no name or id is ever read as markup.

const byId = (id) => document.getElementById(id);

function element(tag, properties = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (value === undefined || value === null || value === false) continue;
    if (name === "style") Object.assign(made.style, value);
    else if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else made.setAttribute(name, value === true ? "" : String(value));
  }
  made.append(...children.flat().filter((child) => child !== null && child !== undefined && child !== false));
  return made;
}

const button = (words, onclick, properties = {}) =>
  element("button", { type: "button", onclick, ...properties }, ...[words].flat());
const ghost = (words, onclick) => button(words, onclick, { class: "ghost" });
const hint = (words, properties = {}) => element("p", { class: "hint", ...properties }, words);
const dot = (colour) => element("span", { class: "dot", style: { background: colour } });

// The words, and buttons that turn to the pages beside this one.
function pager(words, page, pages, turn) {
  const to = (name, number) => button(name, () => turn(number), { disabled: number < 0 || number >= pages });
  return [element("span", {}, words), to("Previous page", page - 1), to("Next page", page + 1)];
}

const fill = (parent, ...children) => parent.replaceChildren(...children.flat().filter(Boolean));

const wholeNumber = new Intl.NumberFormat("en");
const count = (value) => wholeNumber.format(value);

// Three significant digits; powers of ten where a number is very small.
function number(value) {
  if (!Number.isFinite(value)) return "–";
  const size = Math.abs(value);
  if (size >= 1000) return count(Math.round(value));
  if (size >= 0.001 || size === 0) return String(Number(value.toPrecision(3)));
  const [digits, power] = value.toExponential(1).split("e-");
  return `${digits} × 10⁻${[...power].map((digit) => "⁰¹²³⁴⁵⁶⁷⁸⁹"[digit]).join("")}`;
}

function percent(share) {
  if (!Number.isFinite(share)) return "–";
  const value = 100 * share;
  return `${value !== 0 && value < 9.95 ? value.toFixed(1) : Math.round(value)} %`;
}

const plural = (amount, one, many) => `${count(amount)} ${amount === 1 ? one : many}`;

// A cell of a CSV file.
const cell = (text) => (/[",\r\n]|^\s|\s$/.test(text) ? `"${text.replaceAll('"', '""')}"` : text);

function download(name, text) {
  const address = URL.createObjectURL(new Blob([text], { type: "text/csv" }));
  element("a", { href: address, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(address), 10000);
}
