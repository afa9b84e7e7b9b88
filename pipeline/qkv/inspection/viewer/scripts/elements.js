"use strict";
// Elements of HTML and SVG, and the labels in pictures. Text is only ever set as text.

const SVG = "http://www.w3.org/2000/svg";

function fillElement(element, attributes, text) {
  for (const [key, value] of Object.entries(attributes)) {
    if (value === true) element.setAttribute(key, "");
    else if (value !== false && value !== null && value !== undefined) element.setAttribute(key, value);
  }
  if (text !== null) element.textContent = text;
  return element;
}

// Attributes that are `null` or `false` are left out; write "false" where the word is wanted.
function svgElement(name, attributes = {}, text = null) {
  return fillElement(document.createElementNS(SVG, name), attributes, text);
}

function htmlElement(name, attributes = {}, text = null) {
  return fillElement(document.createElement(name), attributes, text);
}

const LONGEST_LABEL = 24; // characters

function shorten(label) {
  const characters = [...label];
  return characters.length > LONGEST_LABEL ? characters.slice(0, LONGEST_LABEL - 1).join("") + "…" : label;
}

// Keeps the letters and punctuation of a word that is written from right to left apart from the text around it.
function isolate(label) {
  return /[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufefc\u{10800}-\u{10fff}\u{1e800}-\u{1efff}]/u.test(label) ? `\u2068${label}\u2069` : label;
}

// How wide a text is in a picture, in pixels; `size` as the style sheet's `svg text`.
function textWidth(text, size = 13) {
  textWidth.context ??= document.createElement("canvas").getContext("2d");
  textWidth.context.font = `${size}px system-ui, sans-serif`;
  return textWidth.context.measureText(text).width;
}

function widest(labels, size) {
  return Math.max(0, ...labels.map((label) => textWidth(shorten(label), size)));
}
