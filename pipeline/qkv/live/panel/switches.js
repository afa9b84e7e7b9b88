"use strict";
// Switches for heads: a button under each picture, the key x on it, and a bar below them for all kinds of change.

// Marks the pictures of heads that are changed, and puts a switch under each. `columns(column)` says which run a column
// of the viewer shows and whether it is the changed one; `edits(run, site)` are the edits of the sentence
// that is shown, null where heads of that site cannot be changed;
// `set(run, site, places, change)` changes heads, [[layer, head], ...]. `kinds` describes each kind of change.
function decorateSwitches(viewer, { edits, columns, set, kinds }) {
  viewer.decorateHeads((button, { run: column, site, layer, head }) => {
    const place = columns(column), at = viewer.store.sites[site].weighedAt;
    const made = place && at ? edits(place.run, at) : null;
    if (!made) return;
    const heads = head === "mean" ? [...Array(viewer.store.size(column)[1]).keys()] : [head];
    const changes = heads.map((one) => made.changeOf(at, layer, one)), isOff = changes.every((one) => one === "zeroed");
    const change = changes[0];
    if (place.changed && head !== "mean" && change) {
      button.classList.add("switched", `switched-${change}`);
      button.setAttribute("aria-label", `${button.getAttribute("aria-label")}, ${kinds[change]?.label ?? change}`);
      button.title = button.getAttribute("aria-label");
    }
    const toggle = () => set(place.run, at, heads.map((one) => [layer, one]), isOff ? null : "zeroed");
    button.setAttribute("aria-keyshortcuts", "x");
    button.addEventListener("keydown", (event) => { if (event.key === "x") toggle(); });
    const name = head === "mean" ? `all heads of layer ${layer}` : `layer ${layer}, head ${head}`;
    if (!place.changed) queueMicrotask(() => addSwitch(button, name, isOff, toggle));
  });
}

function addSwitch(button, name, isOff, toggle) {
  if (!button.isConnected) return;
  const cell = htmlElement("span", { class: "switchable" }), focused = document.activeElement === button;
  button.replaceWith(cell);
  const element = makeButton(isOff ? "off" : "on", {
    class: "switch", tabindex: -1, "aria-pressed": String(isOff), "aria-label": `off: ${name}`,
    title: isOff ? `switch ${name} on again` : `switch ${name} off: it adds nothing`,
  }, toggle);
  cell.append(button, element);
  if (focused) button.focus({ preventScroll: true });
}

// The bar for the head that is shown: one button a kind of change, for the head and for its layer.
function drawSwitchBar({ site, layer, head, heads, changes, edits, set }) {
  const bar = htmlElement("div", { class: "switches" });
  const group = (name, places) => {
    const line = htmlElement("div", { role: "group", "aria-label": name }), found = places.map((place) => edits.changeOf(site, ...place));
    line.append(htmlElement("span", { class: "name" }, name));
    for (const [change, { label, meaning }] of [[null, { label: "on", meaning: "as the model has it" }], ...Object.entries(changes)]) {
      const pressed = found.every((one) => one === change);
      line.append(makeButton(label, { title: meaning, "aria-pressed": String(pressed) }, () => set(places, change)));
    }
    bar.append(line);
  };
  if (head !== "mean") group(`head ${head} of layer ${layer}`, [[layer, head]]);
  group(`all heads of layer ${layer}`, [...Array(heads).keys()].map((one) => [layer, one]));
  return bar;
}
