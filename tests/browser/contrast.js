// Every text whose colour is less than 4.5 times as bright or dark as what is behind it.
() => {
  const canvas = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
  const parse = (text) => {
    canvas.clearRect(0, 0, 1, 1);
    canvas.fillStyle = text;
    canvas.fillRect(0, 0, 1, 1);
    const [red, green, blue, alpha] = canvas.getImageData(0, 0, 1, 1).data;
    return [red, green, blue, alpha / 255];
  };
  const over = (top, below) => [0, 1, 2].map((at) => top[at] * top[3] + below[at] * (1 - top[3]));
  const behind = (found) => {
    const layers = [];
    for (let up = found; up; up = up.parentElement) layers.push(parse(getComputedStyle(up).backgroundColor));
    return layers.reverse().reduce((below, layer) => over(layer, below), [255, 255, 255]);
  };
  const light = (colour) => {
    const parts = colour
      .map((value) => value / 255)
      .map((value) => (value <= 0.03928 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4));
    return 0.2126 * parts[0] + 0.7152 * parts[1] + 0.0722 * parts[2];
  };
  const faint = [];
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const found = walker.currentNode.parentElement;
    if (
      !walker.currentNode.textContent.trim() ||
      !found.checkVisibility() ||
      found.closest("script, style, noscript, .skip")
    )
      continue;
    const below = behind(found);
    const [first, second] = [light(over(parse(getComputedStyle(found).color), below)), light(below)];
    const ratio = (Math.max(first, second) + 0.05) / (Math.min(first, second) + 0.05);
    if (ratio < 4.5 && !found.closest(":disabled"))
      faint.push(
        `${ratio.toFixed(2)}: ${found.className} ${walker.currentNode.textContent.trim().slice(0, 30)}`,
      );
  }
  return faint;
};
