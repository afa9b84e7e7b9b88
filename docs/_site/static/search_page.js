"use strict";
/* The page of the search: results appear while a query is typed, and the address holds the query. */

const EXCERPT = 200;
const field = document.querySelector("#search-form input");
const status = document.getElementById("search-status");
const list = document.getElementById("search-results");

function element(name, attributes, ...children) {
  const made = Object.assign(document.createElement(name), attributes);
  made.append(...children);
  return made;
}

/* The part of a text that begins shortly before the first word of the query, with such words marked. */
function excerptOf(text, words) {
  const parts = text.split(/([\p{L}\p{N}]+)/u);
  const found = parts.map((part, index) => index % 2 === 1 && words.has(stemsIn(part)[0]));
  const start = Math.max(0, found.indexOf(true) - 16);
  const shown = [];
  for (let index = start, length = 0; index < parts.length && length < EXCERPT; length += parts[index++].length)
    shown.push(found[index] ? element("mark", {}, parts[index]) : parts[index]);
  return [start > 0 ? "… " : "", ...shown];
}

function show() {
  const query = field.value.trim();
  const words = shownStems(query);
  const results = rank(query);
  status.textContent = !query ? "" : results.length ? "" : `Nothing was found for “${query}”.`;
  list.replaceChildren(
    ...results.map(({ address, path, text }) =>
      element(
        "li",
        {},
        element("a", { href: address }, path.at(-1)),
        element("span", { className: "search-path" }, path.slice(0, -1).join(" › ")),
        element("p", {}, ...excerptOf(text, words)),
      ),
    ),
  );
  document.documentElement.dataset.results = query;
}

document.getElementById("search-form").addEventListener("submit", (event) => event.preventDefault());
field.addEventListener("input", () => {
  history.replaceState(null, "", `?q=${encodeURIComponent(field.value)}`);
  show();
});
field.value = new URLSearchParams(location.search).get("q") || "";
show();
