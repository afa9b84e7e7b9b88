"use strict";
// Switches for heads: on their pictures, and in a bar below them for the chosen head or its whole layer.

// Marks the pictures of heads that are changed; `edits(run)` are those of a run's sentence that is shown. While
// `clicking()`, a click on a picture switches its head off or on by `toggle(run, site, layer, head)`.
function decorateSwitches(viewer, { edits, columns, clicking, toggle }) {
  viewer.decorateHeads((button, { run: column, site, layer, head }) => {
    const place = columns(column), at = WEIGHED_AT[site];
    if (!place || !at || head === "mean") return;
    const change = place.changed ? edits(place.run).changeOf(at, layer, head) : null;
    if (change) {
      button.classList.add("switched", `switched-${change}`);
      button.setAttribute("aria-label", `${button.getAttribute("aria-label")}, ${CHANGE_NAMES[change]}`);
      button.title = button.getAttribute("aria-label");
    }
    button.addEventListener("click", (event) => {
      if (!clicking()) return;
      event.stopImmediatePropagation();
      toggle(place.run, at, layer, head);
    }, { capture: true });
  });
}

// The bar for the head that is shown: one button a kind of change, for the head and for its layer.
function drawSwitchBar({ site, layer, head, heads, changes, edits, set }) {
  const bar = htmlElement("div", { class: "switches" });
  const group = (name, places) => {
    const line = htmlElement("div", { role: "group", "aria-label": name }), found = places.map((place) => edits.changeOf(site, ...place));
    line.append(htmlElement("span", { class: "name" }, name));
    for (const change of [null, ...changes]) {
      const pressed = found.every((one) => one === change);
      const meaning = change === null ? "as the model has it" : CHANGE_MEANINGS[change];
      const button = htmlElement("button", { type: "button", title: meaning, "aria-pressed": String(pressed) }, change === null ? "on" : CHANGE_NAMES[change]);
      button.addEventListener("click", () => set(places, change));
      line.append(button);
    }
    bar.append(line);
  };
  if (head !== "mean") group(`head ${head} of layer ${layer}`, [[layer, head]]);
  group(`all heads of layer ${layer}`, [...Array(heads).keys()].map((one) => [layer, one]));
  return bar;
}
