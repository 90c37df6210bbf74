// Colours as whole numbers 0xRRGGBBAA, which the plot takes without parsing.

const CLASS_COLOURS = [
  "#4878d0",
  "#e1812c",
  "#3a9a5b",
  "#c44e62",
  "#8172b3",
  "#8c6d4f",
  "#d56fb0",
  "#6f7780",
  "#a8a02b",
  "#2aa5b5",
];
const RAMPS = {
  distance: ["#30346d", "#2f6c8e", "#2aa188", "#7fcf5a", "#f2e04a"],
  suspicion: ["#8aa4c8", "#c9b48f", "#ee9a4d", "#dd4f3c", "#8f0f3b"],
};

function channels(hex) {
  const value = parseInt(hex.slice(1), 16);
  return [value >> 16, (value >> 8) & 255, value & 255];
}

function packed([red, green, blue], alpha) {
  return ((red << 24) | (green << 16) | (blue << 8) | Math.round(alpha * 255)) >>> 0;
}

function cssColour(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
}

// The colour at a share from 0 to 1 of a ramp.
function rampColour(ramp, share) {
  const place = Math.min(Math.max(share, 0), 1) * (ramp.length - 1);
  const low = Math.min(Math.floor(place), ramp.length - 2);
  const from = channels(ramp[low]);
  const to = channels(ramp[low + 1]);
  return from.map((value, at) => Math.round(value + (to[at] - value) * (place - low)));
}

// Ten colours that are told apart, then hues a golden angle apart.
function classColour(code) {
  if (code < 0) return channels("#888888");
  if (code < CLASS_COLOURS.length) return channels(CLASS_COLOURS[code]);
  const hue = (code * 137.508) % 360;
  const [saturation, light] = [0.55, 0.45 + 0.12 * (code % 3)];
  const span = saturation * Math.min(light, 1 - light);
  const channel = (shift) => {
    const turn = (shift + hue / 30) % 12;
    return Math.round(255 * (light - span * Math.max(-1, Math.min(turn - 3, 9 - turn, 1))));
  };
  return [channel(0), channel(8), channel(4)];
}

function cssRgb(colour) {
  return `rgb(${colour.join(" ")})`;
}
