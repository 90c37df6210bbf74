// Colours as whole numbers 0xRRGGBBAA, which the plot takes without parsing.

const CLASS_COLOURS = [
  "#4878d0", "#e1812c", "#3a9a5b", "#c44e62", "#8172b3", "#8c6d4f", "#d56fb0", "#6f7780", "#a8a02b", "#2aa5b5",
];
// What is far or suspicious stands out: dark on light ground, bright on dark ground.
const RAMPS = {
  light: {
    distance: ["#86cfae", "#3fa9b5", "#2f74b5", "#4a3f9f", "#47125e"],
    suspicion: ["#a9b8cf", "#d3b98f", "#ee9a4d", "#d8452f", "#7d0a35"],
  },
  dark: {
    distance: ["#4355a8", "#2f8bb0", "#35b48f", "#a6d854", "#f6e96b"],
    suspicion: ["#4a5a76", "#8d7268", "#d98545", "#ff5f57", "#ffb3c4"],
  },
};

const rampOf = (mode) => RAMPS[document.documentElement.dataset.theme][mode];

function channels(hex) {
  const value = parseInt(hex.slice(1), 16);
  return [value >> 16, (value >> 8) & 255, value & 255];
}

const packed = ([red, green, blue], alpha) =>
  ((red << 24) | (green << 16) | (blue << 8) | Math.round(alpha * 255)) >>> 0;
const cssColour = (name) => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();

// The colour at a share from 0 to 1 of a ramp.
function rampColour(stops, share) {
  const place = Math.min(Math.max(share, 0), 1) * (stops.length - 1);
  const low = Math.min(Math.floor(place), stops.length - 2);
  const from = channels(stops[low]);
  const to = channels(stops[low + 1]);
  return from.map((value, at) => Math.round(value + (to[at] - value) * (place - low)));
}

// Ten colours that are told apart, then hues a golden angle apart, which a canvas turns into channels.
const painter = document.createElement("canvas").getContext("2d");
function classColour(code) {
  const hue = `hsl(${(code * 137.508) % 360} 55% ${45 + 12 * (code % 3)}%)`;
  painter.fillStyle = code < 0 ? "#888888" : (CLASS_COLOURS[code] ?? hue);
  return channels(painter.fillStyle);
}

const cssRgb = (colour) => `rgb(${colour.join(" ")})`;
