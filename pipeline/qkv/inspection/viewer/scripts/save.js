"use strict";
// Pictures as SVG and PNG files, and the saving of files by the browser.

const PAINT = ["fill", "fill-opacity", "stroke", "stroke-width", "stroke-opacity", "stroke-dasharray", "opacity", "font-family", "font-size", "font-weight", "text-anchor"];

// Returns the text of an SVG file of a picture: its parts side by side below a caption. Colours and fonts are
// attributes, so that programs without style sheets can show it. The colours are those of the light page.
function standalonePicture(picture, caption) {
  const root = document.documentElement;
  root.dataset.palette = "light";
  try {
    const parts = [...picture.querySelectorAll("svg")], corner = picture.querySelector(".corner");
    const head = 30, margin = 8, file = svgElement("svg");
    let width = 0, height = 0;
    for (const svg of parts) {
      const right = svg.matches(".columns, .body"), below = svg.matches(".rows, .body");
      const x = margin + (right ? sizeOf(corner).width : 0), y = head + (below ? sizeOf(corner).height : 0), copy = paintedCopy(svg);
      copy.setAttribute("x", x);
      copy.setAttribute("y", y);
      file.append(copy);
      width = Math.max(width, x + sizeOf(svg).width + margin);
      height = Math.max(height, y + sizeOf(svg).height + margin);
    }
    const text = svgElement("text", { x: margin, y: 20, "font-family": "system-ui, sans-serif", "font-size": 13, "font-weight": 600, fill: "#1a1a1a" }, caption);
    width = Math.ceil(Math.max(width, 2 * margin + textWidth(caption) * 1.1));
    file.prepend(svgElement("title", {}, caption), svgElement("rect", { width, height, fill: "#ffffff" }), text);
    for (const [key, value] of Object.entries({ width, height, viewBox: `0 0 ${width} ${height}` })) file.setAttribute(key, value);
    return `<?xml version="1.0" encoding="UTF-8"?>\n${new XMLSerializer().serializeToString(file)}\n`;
  } finally {
    delete root.dataset.palette;
  }
}

function sizeOf(svg) {
  return { width: Number(svg.getAttribute("width")), height: Number(svg.getAttribute("height")) };
}

// Returns a copy of an element that has colours and fonts as attributes, without the attributes that only the page
// needs.
function paintedCopy(element) {
  const copy = element.cloneNode(false), style = getComputedStyle(element);
  for (const name of copy.getAttributeNames()) {
    if (/^(aria-|data-|class|role|tabindex|style)/.test(name)) copy.removeAttribute(name);
  }
  for (const name of PAINT) copy.setAttribute(name, style.getPropertyValue(name));
  copy.append(...[...element.childNodes].filter((node) => !node.matches?.(".band")).map((node) => (node.nodeType === 1 ? paintedCopy(node) : node.cloneNode())));
  return copy;
}

function fileName(parts) {
  return parts.join("-").replace(/[^\p{L}\p{N}.-]+/gu, "_");
}

const PNG_SCALE = 3; // pixels of the file for each pixel of the page, so that prints are sharp

// Converts the text of an SVG file to a PNG file.
async function paintPng(text) {
  const image = new Image();
  image.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(text)}`;
  await image.decode();
  const canvas = htmlElement("canvas", { width: PNG_SCALE * image.width, height: PNG_SCALE * image.height });
  canvas.getContext("2d").drawImage(image, 0, 0, canvas.width, canvas.height);
  return new Promise((done) => canvas.toBlob(done, "image/png"));
}

function saveFile(blob, name) {
  const address = URL.createObjectURL(blob);
  htmlElement("a", { href: address, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(address), 10000);
}
