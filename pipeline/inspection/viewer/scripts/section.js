"use strict";
// What is shown of one run: its heads, the matrix or the lines of the chosen one, and the table.

// `hooks`: {heads: [decorate(button, place)], panels: [panel(section, place)]}; places say {run, sentence, site} and,
// of heads, {layer, head}, with `run` as an index.
function drawSection(store, index, hooks) {
  const { state, runs } = store, run = runs[index], sentence = store.sentence(index, state.id);
  const section = htmlElement("section", { class: "run", "aria-label": run.name });
  if (runs.length > 1) section.append(htmlElement("h2", { dir: "auto" }, run.name));
  const [layers, heads] = store.size(index);
  if (!layers || !sentence) {
    section.append(htmlElement("p", {}, sentence ? "This model has no such attention." : "This run does not have this sentence."));
    return section;
  }
  const place = { run: index, sentence, site: state.site };
  section.append(
    drawHeads({
      layers, heads, chosen: state,
      matrixOf: (layer, head) => store.matrix(index, sentence.id, state.site, layer, head),
      choose: (layer, head) => store.set({ layer, head }),
      decorate: (button, { layer, head }) => hooks.heads.forEach((hook) => hook(button, { ...place, layer, head })),
    }),
  );
  const layer = Math.min(state.layer, layers - 1), head = state.head === "mean" || state.head < heads ? state.head : "mean";
  section.append(...drawHead(store, index, sentence, layer, head));
  for (const panel of hooks.panels) panel(section, place);
  return section;
}

function drawHead(store, index, sentence, layer, head) {
  const { state } = store, run = store.runs[index], { title, axes, aligns } = store.sites[state.site];
  const texts = { rows: wordsOf(run, sentence, axes[0]), columns: wordsOf(run, sentence, axes[1]) };
  const tokens = tokensOf(sentence, axes, state.side);
  const shown = present(store.matrix(index, sentence.id, state.site, layer, head), tokens, texts, state);
  const heading = `${title}, layer ${layer}, ${head === "mean" ? "mean of heads" : `head ${head}`}, ${state.side} side`;
  const parts = [htmlElement("h2", {}, heading + (state.hideEos ? " (without EOS, rows renormalised)" : ""))];
  const units = state.words ? describeUnits(run.units) : "";
  if (units) parts.push(htmlElement("p", { class: "units" }, units));
  const value = htmlElement("div", { class: "value", dir: "auto", "aria-live": "polite" });
  const picture = htmlElement("div", { class: "picture" });
  const gold = state.gold && aligns && state.words ? sentence.gold : [];
  const draw = state.lines ? drawLines : drawMatrix;
  picture.append(draw(shown, gold, (text) => { value.textContent = text; }));
  const whole = !state.words && !state.hideEos && axes[0] === "target" && state.side === "output";
  return [...parts, value, picture, drawTable(shown, whole ? sentence.logProbabilities : null)];
}
