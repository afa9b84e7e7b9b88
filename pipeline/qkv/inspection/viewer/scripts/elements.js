"use strict";
// Elements of HTML and SVG, labels of pictures, and groups of elements that are one stop of the Tab key. Text is always
// set as text, never as HTML.

const SVG = "http://www.w3.org/2000/svg";

function fillElement(element, attributes, text) {
  for (const [key, value] of Object.entries(attributes)) {
    if (value === true) element.setAttribute(key, "");
    else if (value !== false && value !== null && value !== undefined) element.setAttribute(key, value);
  }
  if (text !== null) element.textContent = text;
  return element;
}

// Sets the attributes of an element. Those that are null or false are left out; for the word, write "false" as text.
function svgElement(name, attributes = {}, text = null) {
  return fillElement(document.createElementNS(SVG, name), attributes, text);
}

function htmlElement(name, attributes = {}, text = null) {
  return fillElement(document.createElement(name), attributes, text);
}

// Returns a button with a text. If the text is null, the caller appends the content.
function makeButton(text, attributes, click) {
  const button = htmlElement("button", { type: "button", ...attributes }, text);
  button.addEventListener("click", click);
  return button;
}

const LONGEST_LABEL = 24; // characters

function shorten(label) {
  const characters = [...label];
  return characters.length > LONGEST_LABEL ? characters.slice(0, LONGEST_LABEL - 1).join("") + "…" : label;
}

// Isolates a word that is written from right to left, so that it does not reorder the text around it.
function isolate(label) {
  return /[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufefc\u{10800}-\u{10fff}\u{1e800}-\u{1efff}]/u.test(label) ? `\u2068${label}\u2069` : label;
}

// Returns the width of a text in a picture, in pixels. The default of `size` is that of `svg text` in the style sheet.
function textWidth(text, size = 13) {
  textWidth.context ??= document.createElement("canvas").getContext("2d");
  textWidth.context.font = `${size}px system-ui, sans-serif`;
  return textWidth.context.measureText(text).width;
}

function widest(labels, size) {
  return Math.max(0, ...labels.map((label) => textWidth(shorten(label), size)));
}

// Lets arrow keys move through items, so that the group is one stop of the Tab key. The items are in rows of `width`.
// Tab reaches the item `first`. Home and End move to the ends of a row.
function makeRoving(root, items, width, first = 0) {
  const steps = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: width, ArrowUp: -width };
  const target = (place, key) => {
    const column = place % width;
    if (key === "Home") return place - column;
    if (key === "End") return Math.min(items.length - 1, place - column + width - 1);
    const leaves = (key === "ArrowRight" && column === width - 1) || (key === "ArrowLeft" && column === 0);
    return leaves && width > 1 ? place : place + (steps[key] ?? 0);
  };
  const reach = (item) => {
    root.querySelector('[tabindex="0"]')?.setAttribute("tabindex", "-1");
    item.setAttribute("tabindex", "0");
  };
  items.forEach((item, place) => item.setAttribute("tabindex", place === first ? "0" : "-1"));
  root.addEventListener("focusin", ({ target }) => items.includes(target) && reach(target));
  root.addEventListener("keydown", (event) => {
    const place = items.indexOf(event.target);
    const known = event.key in steps || event.key === "Home" || event.key === "End";
    if (place < 0 || !known || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    items[target(place, event.key)]?.focus();
  });
}

// Makes an element that scrolls a stop of the Tab key, so that the arrow keys can scroll it.
function reachScrolling(element, label) {
  if (element.scrollWidth <= element.clientWidth && element.scrollHeight <= element.clientHeight) return;
  for (const [name, value] of Object.entries({ tabindex: 0, role: "group", "aria-label": label })) element.setAttribute(name, value);
}

const SCROLLED = ".picture, .heads";

// Calls `draw`, and restores the focus and the scrolling afterwards. The focus goes to the element with the same
// `data-focus`.
function keepPlace(root, draw) {
  const focused = root.contains(document.activeElement) ? document.activeElement.dataset.focus : null;
  const scrolled = [...root.querySelectorAll(SCROLLED)].map(({ scrollLeft, scrollTop }) => [scrollLeft, scrollTop]);
  draw();
  root.querySelectorAll(SCROLLED).forEach((part, i) => {
    if (scrolled[i]) [part.scrollLeft, part.scrollTop] = scrolled[i];
    revealPressed(part);
  });
  if (!focused) return;
  const kind = focused.split(" ")[0];
  const same = root.querySelector(`[data-focus="${focused}"]`) ?? root.querySelector(`[data-focus^="${kind} "][tabindex="0"]`);
  same?.focus({ preventScroll: true });
}

// Scrolls a group of buttons to the chosen button, without scrolling the page.
function revealPressed(part) {
  const button = part.querySelector('[aria-pressed="true"]');
  if (!button || !part.matches(".heads")) return;
  const { offsetTop: top, offsetLeft: left, offsetHeight: height, offsetWidth: width } = button;
  part.scrollTop = Math.min(top, Math.max(part.scrollTop, top + height + 2 - part.clientHeight));
  part.scrollLeft = Math.min(left, Math.max(part.scrollLeft, left + width + 2 - part.clientWidth));
}
