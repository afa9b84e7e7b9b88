"use strict";
// The view of a sentence in the panel: its translations, their tokens, the alternatives at a token, and the edits.

class CaseView {
  // `panel`: the panel whose methods the buttons call.
  constructor(panel) {
    this.panel = panel;
    this.open = { nBest: false, row: false, logit: false }; // whether each folded part is open
    this.lastCell = { row: null, column: null, key: null }; // the cell that was chosen last, and the key that is explained
  }

  folded(name, summary, kind = null) {
    const details = htmlElement("details", { class: kind, open: this.open[name] });
    details.append(htmlElement("summary", {}, summary));
    details.addEventListener("toggle", () => { this.open[name] = details.open; });
    return details;
  }

  drawRun(asked, run) {
    const parts = [], several = this.panel.backend.runs.length > 1, name = this.panel.backend.runs[run].name;
    if (asked.paragraph.spaces.length) parts.push(this.drawParagraph(asked, run, several ? name : "translation"));
    for (const changed of [false, true]) {
      const facts = asked.facts(run, changed);
      if (!facts) continue;
      const title = [several ? name : "", changed ? "changed" : several ? "" : "tokens"].filter(Boolean).join(", ");
      const row = htmlElement("div", { class: "translation" }), token = asked.token;
      const chosen = token?.run === run && token.changed === changed ? token.place : null;
      row.append(htmlElement("span", { class: "name" }, title));
      row.append(drawTokens(facts, chosen, (place) => this.panel.chooseToken(asked, run, changed, place)));
      parts.push(row);
      if (chosen !== null) parts.push(this.drawToken(asked, run, changed, chosen));
      if (!changed && facts.nBest.length > 1) parts.push(this.drawNBest(asked, run, facts));
    }
    const edits = asked.edits[run];
    if (!edits.empty || edits.past.length) parts.push(this.drawEdits(asked, run, edits));
    if (asked.changed[run]) parts.push(drawComparison(asked.original[run], asked.changed[run]));
    return parts;
  }

  // Returns the translation of the whole text of a sentence. A click on another sentence shows it.
  drawParagraph({ id, paragraph }, run, title) {
    const row = htmlElement("div", { class: "paragraph" }), text = htmlElement("p", { dir: "auto" });
    paragraph.cases.forEach((other, place) => {
      if (place) text.append(paragraph.spaces[place - 1]);
      if (!other) return;
      const link = htmlElement("a", {
        href: `#${other.id}`, title: other.text, "aria-current": other.id === id ? "true" : null, "data-focus": `paragraph-${run} ${other.id}`,
      }, other.original[run].sentence.hypothesis || "(empty)");
      link.addEventListener("click", (event) => {
        event.preventDefault();
        this.panel.store.select(other.id);
      });
      text.append(link);
    });
    row.append(htmlElement("span", { class: "name" }, title), text);
    return row;
  }

  drawEdits(asked, run, edits) {
    const line = htmlElement("div", { class: "edits" });
    for (const { text, remove } of edits.describe(this.panel.backend.changes, this.panel.store.sites)) {
      line.append(makeButton(`${text} ×`, { class: "chip", title: "take this back" }, () => this.panel.edit(run, remove)));
    }
    const button = (text, change, disabled) => line.append(makeButton(text, { disabled }, () => this.panel.edit(run, change)));
    button("Undo", (edits) => edits.undo(), edits.past.length === 0);
    button("Undo all", (edits) => edits.clear(), edits.empty);
    return line;
  }

  drawNBest(asked, run, facts) {
    const box = this.folded("nBest", `${facts.nBest.length} translations, the best first`, "n-best"), list = htmlElement("ol", {});
    box.append(list);
    for (const translation of facts.nBest) {
      const item = htmlElement("li", {}), current = translation.ids.join() === facts.ids.join();
      const attributes = { dir: "auto", "aria-current": current ? "true" : null };
      const button = makeButton(translation.text || "(empty)", attributes, () => this.panel.showOther(asked, run, translation));
      const scores = ` score ${translation.score.toFixed(3)}, log-probability ${translation.logProbability.toFixed(2)}`;
      item.append(button, htmlElement("span", { class: "facts" }, scores));
      list.append(item);
    }
    return box;
  }

  drawToken(asked, run, changed, place) {
    const facts = asked.facts(run, changed), box = htmlElement("div", { class: "token-facts" });
    box.append(htmlElement("p", {}, "Likeliest tokens here. Choose another one, and the translation goes on from it:"));
    const goOn = (id, token) => {
      const ids = [...facts.ids.slice(0, place), id];
      const text = [...facts.sentence.target.slice(0, place), token].map(spellToken).join("").trim();
      this.panel.edit(run, (edits) => edits.setPrefix(ids, text));
    };
    box.append(drawAlternatives(facts.alternatives[place], facts.ids[place], goOn));
    const { split, rows, runs } = this.panel.backend;
    if (split && !changed && "cross" in runs[run].heads) box.append(this.drawLogit(asked, run, place));
    if (rows) box.append(this.drawRowOf(asked, run, changed, place));
    return box;
  }

  // Returns a folded part with the parts of the logit of a token. The backend is asked when it is opened.
  drawLogit(asked, run, place) {
    const details = this.folded("logit", "Why this word"), result = htmlElement("div", { class: "logit", "aria-live": "polite" });
    details.append(result);
    const show = async () => {
      if (!details.open || result.hasChildNodes()) return;
      const question = asked.logitQuestion(run, place), name = JSON.stringify(question);
      if (!asked.why.has(name)) asked.why.set(name, this.panel.backend.split(question));
      try {
        result.replaceChildren(...drawLogit(await asked.why.get(name)));
      } catch ({ message }) {
        asked.why.delete(name);
        result.replaceChildren(htmlElement("p", { class: "warning" }, message));
      }
    };
    details.addEventListener("toggle", show);
    show();
    return details;
  }

  // Returns a folded part with sliders for the weights of the shown head in the row of a token.
  drawRowOf(asked, run, changed, place) {
    const { site, layer, head } = this.panel.store.state, at = this.panel.store.sites[site].weighedAt, facts = asked.facts(run, changed);
    const details = this.folded("row", "Move weight within this row"), heads = this.panel.backend.runs[run].heads[at];
    if (!heads || site === "encoder" || head === "mean" || layer >= heads[0] || head >= heads[1]) {
      details.append(htmlElement("p", {}, "Choose one head of the cross-attention or of the decoder below."));
      return details;
    }
    const column = changed ? this.panel.changedColumn(run) : run;
    const weights = this.panel.store.matrix(column, asked.id, site === "norms" ? "cross" : site, layer, head)[place];
    const { columns } = tokensOf(facts.sentence, this.panel.store.sites[site].axes);
    details.append(
      htmlElement("p", {}, `${nameHead(this.panel.store.sites, at, layer, head)}: how the next token depends on this row alone.`),
      drawRow({
        keys: columns, weights: [...weights], before: facts.alternatives[place],
        ask: async (moved) => {
          const row = { site: at, layer, head, query: place, weights: moved };
          return (await this.panel.request(asked.questionOf(run, facts, changed, row))).alternatives[place];
        },
      }),
    );
    return details;
  }

  // Draws the parts of the scores of the shown head, in the pinned row of the original, beside its picture.
  drawWhy(section, { run: column, sentence, site }) {
    const { backend, store } = this.panel, asked = this.panel.case, { state } = store, place = this.panel.columns[column];
    const at = store.sites[site].weighedAt, pinned = /^r(\d+)$/.exec(state.pin ?? ""), aside = section.querySelector(".aside");
    const can = backend.explain && asked && aside && place && !place.changed && backend.runs[place.run].explained?.includes(at);
    if (!can || state.head === "mean" || state.view !== "matrix") return;
    const { axes } = store.sites[site], run = store.runs[column], tokens = tokensOf(sentence, axes, state.side);
    const groups = (side, axis) => tokenGroups(tokens[side], tokens[`${side.slice(0, -1)}Words`], wordsOf(run, sentence, axis), state);
    const rows = groups("rows", axes[0]), columns = groups("columns", axes[1]);
    section.addEventListener("click", ({ target }) => this.noteCell(target), { capture: true });
    section.addEventListener("keydown", ({ target }) => this.noteCell(target), { capture: true });
    const row = pinned ? rows[Number(pinned[1])]?.[0] : undefined;
    if (row === undefined) return;
    const question = asked.scoreQuestion(place.run, at, state.layer, state.head, row), name = JSON.stringify(question);
    const box = htmlElement("section", { class: "why", "aria-label": "Why this head looks there", "aria-busy": "true" });
    aside.prepend(box);
    if (!asked.why.has(name)) asked.why.set(name, backend.explain(question));
    asked.why.get(name).then((facts) => {
      const weights = store.matrix(column, asked.id, site, state.layer, state.head)[row];
      const clicked = this.lastCell.row === Number(pinned[1]) ? columns[this.lastCell.column] : null;
      const among = (clicked ?? [...facts.keys.keys()]).filter((key) => key < facts.keys.length);
      const strongest = among.reduce((best, key) => (best === null || weights[key] > weights[best] ? key : best), null) ?? 0;
      const chosen = this.lastCell.key?.name === name ? this.lastCell.key.place : strongest;
      box.replaceChildren(drawWhy(facts, chosen, (place) => { this.lastCell.key = { name, place }; }));
    }, ({ message }) => {
      asked.why.delete(name);
      box.replaceChildren(htmlElement("p", { class: "warning" }, message));
    }).finally(() => box.removeAttribute("aria-busy"));
  }

  noteCell({ dataset: { row, column } }) {
    if (row !== undefined && column !== undefined) this.lastCell = { row: Number(row), column: Number(column), key: null };
    else if (row !== undefined) this.lastCell = { row: null, column: null, key: null };
  }

  // Draws the bar of switches below the pictures of a run.
  drawBelow(section, { run: column, site }) {
    const place = this.panel.columns[column], at = this.panel.store.sites[site].weighedAt, { layer, head } = this.panel.store.state;
    const heads = place && this.panel.backend.runs[place.run].heads[at];
    if (!heads || place.changed || !this.panel.case || Object.keys(this.panel.backend.changes).length === 0) return;
    const edits = this.panel.case.edits[place.run];
    const bar = drawSwitchBar({
      site: at, layer, head, heads: heads[1], changes: this.panel.backend.changes, edits,
      set: (places, change) => this.panel.edit(place.run, (edits) => edits.setHeads(at, places, change)),
    });
    section.querySelector(".heads")?.after(bar);
  }
}
