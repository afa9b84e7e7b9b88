"use strict";
// Switches for heads: a button under each picture, the key x on a picture, and a bar with all kinds of change.

// Marks the pictures of changed heads, and puts a switch under each picture. The functions and values:
//   columns(column)                  the run of a column of the viewer: {run, changed}, with `changed` true if the column
//                                    shows changed translations; undefined if it has none
//   edits(run, site)                 the edits of the shown sentence; null if heads of this site cannot be changed
//   set(run, site, places, change)   changes the heads `places`, [[layer, head], ...]
//   kinds                            the kinds of change
function decorateSwitches(viewer, { edits, columns, set, kinds }) {
  viewer.decorateHeads((button, { run: column, site, layer, head }) => {
    const shown = columns(column), at = viewer.store.sites[site].weighedAt;
    const edited = shown && at ? edits(shown.run, at) : null;
    if (!edited) return;
    const heads = head === "mean" ? [...Array(viewer.store.size(column)[1]).keys()] : [head];
    const changes = heads.map((number) => edited.changeOf(at, layer, number));
    const change = changes[0], isOff = changes.every((kind) => kind === "zeroed");
    if (shown.changed && head !== "mean" && change) {
      button.classList.add("switched", `switched-${change}`);
      button.setAttribute("aria-label", `${button.getAttribute("aria-label")}, ${nameChange(change, kinds)}`);
      button.title = button.getAttribute("aria-label");
    }
    const toggle = () => set(shown.run, at, heads.map((number) => [layer, number]), isOff ? null : "zeroed");
    button.setAttribute("aria-keyshortcuts", "x");
    button.addEventListener("keydown", (event) => { if (event.key === "x") toggle(); });
    const name = head === "mean" ? say("live.layer", { layer }) : say("live.one_head", { layer, head });
    if (!shown.changed) queueMicrotask(() => addSwitch(button, name, isOff, toggle));
  });
}

function addSwitch(button, name, isOff, toggle) {
  if (!button.isConnected) return;
  const cell = htmlElement("span", { class: "switchable" }), focused = document.activeElement === button;
  button.replaceWith(cell);
  const element = makeButton(isOff ? "×" : "✓", {
    class: "switch", tabindex: -1, "aria-pressed": String(isOff), "aria-label": say("live.switch", { name }),
    title: say(isOff ? "live.switch.on" : "live.switch.off", { name }),
  }, toggle);
  cell.append(button, element);
  if (focused) button.focus({ preventScroll: true });
}

// Returns the switches of the shown head: a button for each kind of change, for the head and for its whole layer.
function drawSwitchBar({ site, layer, head, heads, changes, edits, set }) {
  const bar = htmlElement("div", { class: "switches" });
  const group = (name, places) => {
    const line = htmlElement("div", { role: "group", "aria-label": name });
    const kinds = places.map((place) => edits.changeOf(site, ...place));
    line.append(htmlElement("span", { class: "name" }, name));
    for (const change of [null, ...changes]) {
      const pressed = kinds.every((kind) => kind === change), label = change ? say(`live.change.${change}.label`) : say("live.on");
      const title = change ? say(`live.change.${change}.meaning`) : say("live.on.meaning");
      line.append(makeButton(label, { title, "aria-pressed": String(pressed) }, () => set(places, change)));
    }
    bar.append(line);
  };
  if (head !== "mean") group(say("live.one_head", { layer, head }), [[layer, head]]);
  group(say("live.layer", { layer }), [...Array(heads).keys()].map((number) => [layer, number]));
  return bar;
}
