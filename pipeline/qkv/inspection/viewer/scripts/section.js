"use strict";
// The section of a run: its heads, the picture of the chosen head, and the table.

// Draws a section in two steps, because the size of the picture depends on the width of the section in the page. The
// function draws the first part and returns a function for the second, to be called when the section is in the page.
// `hooks`: the functions of `Viewer.decorateHeads` and `Viewer.addPanel`, {heads, panels}; see viewer.js.
function drawSection(section, store, index, hooks) {
  const { state, runs } = store, run = runs[index], sentence = store.sentence(index, state.id);
  const several = runs.length > 1, [layers, heads] = store.size(index);
  section.setAttribute("aria-label", run.name);
  section.classList.toggle("absent", !sentence);
  if (several) section.append(htmlElement("h2", { dir: "auto" }, run.name));
  if (several && run.facts?.length) section.append(htmlElement("p", { class: "facts" }, run.facts.join(" · ")));
  if (!layers || !sentence) {
    section.append(htmlElement("p", {}, say(sentence ? "viewer.site.none" : "viewer.missing")));
    return () => {};
  }
  const place = { run: index, sentence, site: state.site }, large = state.view === "grid";
  const layer = Math.min(state.layer, layers - 1), head = state.head === "mean" || state.head < heads ? state.head : "mean";
  section.append(
    drawHeads({
      layers, heads, chosen: { layer, head }, large, focus: `heads ${index}`,
      typeOf: (layer, head) => typeOfHead(run, state.site, layer, head),
      matrixOf: (layer, head) => store.matrix(index, sentence.id, state.site, layer, head),
      choose: (layer, head) => store.set(large ? { layer, head, view: "matrix" } : { layer, head }),
      decorate: (button, { layer, head }) => hooks.heads.forEach((hook) => hook(button, { ...place, layer, head })),
    }),
  );
  const fill = large ? () => {} : drawPicture(section, store, index, sentence, layer, head);
  for (const panel of hooks.panels) panel(section, place);
  return fill;
}

function drawPicture(section, store, index, sentence, layer, head) {
  const { state } = store, run = store.runs[index], { title, axes, aligns } = store.sites[state.site];
  const texts = { rows: wordsOf(run, sentence, axes[0]), columns: wordsOf(run, sentence, axes[1]) };
  const tokens = tokensOf(sentence, axes, state.side), all = state.view === "heads";
  const shownOf = (head) => present(store.matrix(index, sentence.id, state.site, layer, head), tokens, texts, state);
  const shown = shownOf(all ? "mean" : head), pin = readPin(state.pin, shown);
  const type = all ? null : typeOfHead(run, state.site, layer, head);
  const typed = type ? say("viewer.heading.typed", { head, type: say(`viewer.type.${type.type}`) }) : nameOfHead(head);
  const which = all ? say("viewer.heading.heads") : head === "mean" ? say("viewer.heading.mean") : typed;
  const side = axes[0] === "target" ? [say(`viewer.heading.${state.side}`)] : []; // rows of the encoder have one kind of label
  const whole = [title, say("viewer.layer", { layer }), which, ...side].join(", ");
  const heading = state.hideEos ? say("viewer.heading.without_eos", { heading: whole }) : whole;
  const bar = htmlElement("div", { class: "bar" }), value = htmlElement("div", { class: "value", dir: "auto", "aria-live": "polite" });
  const view = htmlElement("div", { class: "view" }), figure = htmlElement("div", { class: "figure" });
  const picture = htmlElement("div", { class: "picture" }), aside = htmlElement("div", { class: "aside" });
  const saves = ["SVG", "PNG"].map((kind) => {
    const attributes = { title: say("viewer.save.title"), "data-focus": `save ${kind} ${index}` };
    return makeButton(say("viewer.save", { kind }), attributes, async () => {
      const text = standalonePicture(picture, heading), name = fileName([run.name, sentence.id, state.site, layer, head]);
      const blob = kind === "PNG" ? await paintPng(text) : new Blob([text], { type: "image/svg+xml" });
      saveFile(blob, `${name}.${kind.toLowerCase()}`);
    });
  });
  const lines = state.view !== "matrix", gold = state.gold && aligns && state.words ? sentence.gold : [];
  bar.append(htmlElement("h2", { title: type && describeType(type) }, heading), lines ? drawThickness() : drawScale(), ...saves);
  const units = state.words ? describeUnits(run.units) : "";
  const asRead = !state.words && !state.hideEos && axes[0] === "target" && state.side === "output";
  const table = drawTable(shown, asRead ? sentence.logProbabilities : null, all ? say("viewer.heading.mean") : "");
  aside.append(table);
  figure.append(picture);
  view.append(figure, aside);
  const reading = htmlElement("div", { class: "reading" });
  reading.append(value, ...(gold.length ? [drawGoldKey(lines)] : []));
  section.append(bar, ...(units ? [htmlElement("p", { class: "units" }, units)] : []), reading, view);
  return () => {
    view.classList.toggle("stacked", shown.columns.length * LEGIBLE_CELL > view.clientWidth - aside.offsetWidth - 100);
    const beside = getComputedStyle(view).flexDirection === "row" ? aside.offsetWidth + 24 : 0;
    const options = {
      pin, frame: { width: view.clientWidth - beside, height: 0.78 * innerHeight }, axes: axisNames(axes, state.side), focus: `cell ${index}`,
      gold, table,
      tell: (text) => { value.textContent = text; },
      choose: (pin) => store.set({ pin }),
    };
    if (!lines) picture.append(drawMatrix(shown, options));
    else {
      const single = [{ matrix: shown.matrix, look: { class: "link" } }];
      picture.append(drawLines(shown, { ...options, strands: all ? strandsOf(store.size(index)[1], shownOf) : single }));
    }
    reachScrolling(aside, say("viewer.table"));
    if (all) picture.before(drawHeadColours(store.size(index)[1], picture, (head) => store.set({ head, view: "lines" })));
  };
}

const LEGIBLE_CELL = 16; // pixels; if cells beside the table would be smaller, the table is below the picture

function strandsOf(heads, shownOf) {
  return Array.from({ length: heads }, (_, head) => ({ matrix: shownOf(head).matrix, look: headLook(head), name: nameOfHead(head) }));
}

// Returns {rows, columns}, the names of the axes.
function axisNames(axes, side) {
  const row = axes[0] === "source" ? "source" : side === "output" ? "predicted" : "read";
  return { rows: say(`viewer.axis.${row}`), columns: say(`viewer.axis.${axes[1] === "source" ? "source" : "read_so_far"}`) };
}
