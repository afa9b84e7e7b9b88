"use strict";
// The view of a sentence: its translation above each picture, the heads beside it, and what is known of the chosen word.

class CaseView {
  // `panel`: the panel whose methods the buttons call.
  constructor(panel) {
    this.panel = panel;
    this.open = { nBest: false, alternatives: false, row: false, logit: false, score: false, switches: false }; // the open folded parts
    this.cell = null; // {name, key}: the row whose score is explained, and the key that the user chose or clicked
    this.clicked = 0; // the column of the viewer in which the user last clicked
  }

  folded(name, summary, kind = null) {
    const details = htmlElement("details", { class: kind, open: this.open[name] });
    details.append(htmlElement("summary", { "data-focus": `folded-${name}` }, summary));
    details.addEventListener("toggle", () => { this.open[name] = details.open; });
    return details;
  }

  // Returns a folded part that is filled when it is opened. `ask()` promises the facts that `draw(facts)` turns into
  // elements.
  filledWhenOpen(name, summary, ask, draw) {
    const details = this.folded(name, summary), result = htmlElement("div", { class: name, "aria-live": "polite" });
    details.append(result);
    const show = () => details.open && !result.hasChildNodes() && this.fill(result, ask, draw);
    details.addEventListener("toggle", show);
    show();
    return details;
  }

  // Fills an element with what `draw(facts)` returns, or with the message of an error.
  async fill(element, ask, draw) {
    element.setAttribute("aria-busy", "true");
    try {
      element.replaceChildren(...[draw(await ask())].flat());
    } catch ({ message }) {
      element.replaceChildren(htmlElement("p", { class: "warning" }, message));
    }
    element.removeAttribute("aria-busy");
  }

  // Returns what concerns the sentence with all its pictures: the whole text, the edits, and what they have changed.
  drawCase(asked) {
    return this.panel.backend.runs.flatMap(({ name }, run) => {
      const several = this.panel.backend.runs.length > 1, parts = [], edits = asked.edits[run];
      if (asked.paragraph.spaces.length) parts.push(this.drawParagraph(asked, run, several ? name : ""));
      if (!edits.empty || edits.past.length) parts.push(this.drawEdits(asked, run, edits));
      return parts;
    });
  }

  // Returns the translation of the whole text of a sentence. A click on another sentence shows it.
  drawParagraph({ id, paragraph }, run, title) {
    const row = htmlElement("div", { class: "paragraph" }), text = htmlElement("p", { dir: "auto" });
    paragraph.cases.forEach((other, place) => {
      if (place) text.append(paragraph.spaces[place - 1]);
      if (!other) return;
      const link = htmlElement("a", {
        href: `#${other.id}`, title: other.text, "aria-current": other.id === id ? "true" : null, "data-focus": `paragraph-${run} ${other.id}`,
      }, other.original[run].sentence.hypothesis || say("live.empty"));
      link.addEventListener("click", (event) => {
        event.preventDefault();
        this.panel.store.select(other.id);
      });
      text.append(link);
    });
    row.append(...(title ? [htmlElement("span", { class: "name" }, title)] : []), text);
    return row;
  }

  drawEdits(asked, run, edits) {
    const line = htmlElement("div", { class: "edits", role: "status" });
    for (const { text, remove } of edits.describe(this.panel.backend.changes)) {
      line.append(makeButton(`${text} ×`, { class: "chip", title: say("live.edit.remove") }, () => this.panel.edit(run, remove)));
    }
    const button = (text, change, disabled) => line.append(makeButton(text, { disabled }, () => this.panel.edit(run, change)));
    button(say("live.undo"), (edits) => edits.undo(), edits.past.length === 0);
    button(say("live.undo_all"), (edits) => edits.clear(), edits.empty);
    if (asked.changed[run]) line.append(drawComparison(asked.original[run], asked.changed[run]));
    return line;
  }

  drawNBest(asked, run, facts) {
    const box = this.folded("nBest", say("live.n_best", { count: facts.nBest.length }), "n-best"), list = htmlElement("ol", {});
    box.append(list);
    for (const translation of facts.nBest) {
      const item = htmlElement("li", {}), current = translation.ids.join() === facts.ids.join();
      const attributes = { dir: "auto", "aria-current": current ? "true" : null };
      const button = makeButton(translation.text || say("live.empty"), attributes, () => this.panel.showOther(asked, run, translation));
      const scores = { score: formatNumber(translation.score, 3), log: formatNumber(translation.logProbability) };
      item.append(button, " ", htmlElement("span", { class: "facts" }, say("live.n_best.scores", scores)));
      list.append(item);
    }
    return box;
  }

  // Arranges a section of the viewer: the name of the column and its translation, the heads, the picture, and beside it
  // what is known of the chosen word.
  drawSection(section, { run: column, sentence, site }) {
    const place = this.panel.columns[column], asked = this.panel.case;
    if (!place || !asked || !sentence) return;
    const { run, changed } = place, facts = asked.facts(run, changed), { store } = this.panel;
    const differing = asked.changed[run] ? differences(asked.original[run].sentence.target, asked.changed[run].sentence.target)[Number(changed)] : new Set();
    const chosen = this.chosenToken(column, sentence), inTarget = store.sites[site].axes[0] === "target";
    const tokens = drawTokens(facts, {
      chosen: inTarget ? chosen : null, differing, focus: `token-${column}`, choose: (token) => this.panel.chooseToken(column, token),
    });
    section.querySelectorAll(":scope > h2, :scope > .facts").forEach((element) => element.remove());
    const side = htmlElement("div", { class: "side" }), heads = section.querySelector(".heads"), view = section.querySelector(".view");
    const name = this.nameColumn(asked, run, changed);
    const title = htmlElement("h2", { class: "column-name", dir: "auto" }, name), line = htmlElement("div", { class: "translation" });
    line.append(tokens);
    section.prepend(...(name ? [title] : []), line);
    if (heads) {
      if (!heads.matches(".large")) heads.after(side);
      if (!heads.matches(".large")) side.append(heads, ...this.drawHead(asked, place, site));
      if (this.panel.columnCount() > 1) heads.querySelectorAll(".column:not(:nth-child(2))").forEach((label, head) => { label.textContent = head; });
    }
    if (!view) return;
    const foot = htmlElement("div", { class: "foot" });
    foot.append(...section.querySelectorAll(":scope > .bar, :scope > .units"));
    section.append(...(this.panel.columnCount() > 1 ? [view.querySelector(".aside")] : []), foot); // side by side there is no space beside a picture
    section.addEventListener("click", (event) => this.noteClick(event, column), { capture: true });
    section.addEventListener("keydown", (event) => this.noteClick(event, column), { capture: true });
    if (chosen !== null && this.chosenColumn() === column) section.querySelector(".aside").replaceChildren(this.drawWord(asked, column, chosen));
  }

  // Returns the name of a column of the viewer; "" for the only one.
  nameColumn(asked, run, changed) {
    const { runs } = this.panel.backend, which = changed ? say("live.changed") : say("live.original");
    if (runs.length === 1) return asked.changed[run] ? which : "";
    return changed ? say("live.of_run", { which, run: runs[run].name }) : runs[run].name;
  }

  // Returns the name of the shown head and its switches, as elements below the pictures of the heads.
  drawHead(asked, { run, changed }, site) {
    const { store, backend, lost } = this.panel, { layer, head } = store.state, at = store.sites[site].weighedAt, parts = [];
    const profile = head === "mean" ? null : describeProfile(profileOf(backend.runs[run], site, layer, head), lost.get(`${run}/${at}/${layer}/${head}`));
    const name = head === "mean" ? say("live.mean", { layer }) : say("live.one_head", { layer, head });
    if (!changed) parts.push(htmlElement("p", { class: "head-name" }, profile ? say("live.named", { name, text: profile }) : name));
    const size = backend.runs[run].heads[at];
    if (!size || changed || !backend.changes.length) return parts;
    const details = this.folded("switches", say("live.change")), bar = drawSwitchBar({
      site: at, layer, head, heads: size[1], changes: backend.changes, edits: asked.edits[run],
      set: (places, change) => this.panel.edit(run, (edits) => edits.setHeads(at, places, change)),
    });
    details.append(bar);
    return [...parts, details];
  }

  noteClick({ type, key, target }, column) {
    const { row, column: cell } = target.dataset ?? {}, asked = this.panel.case;
    if (row === undefined || (type === "keydown" && key !== "Enter")) return;
    this.clicked = column;
    this.cell = cell === undefined ? null : { row: Number(row), column: Number(cell), key: null };
    if (asked) asked.chosen = null;
  }

  // Returns the column of the viewer in which the chosen row is explained.
  chosenColumn() {
    return this.panel.case?.chosen?.column ?? this.clicked;
  }

  // Returns the indices of the tokens in each shown row or column of a sentence, for `side`: "rows" or "columns".
  groups(column, sentence, side) {
    const { store } = this.panel, { state } = store, { axes } = store.sites[state.site], run = store.runs[column];
    const tokens = tokensOf(sentence, axes, state.side), axis = axes[side === "rows" ? 0 : 1];
    return tokenGroups(tokens[side], tokens[`${side.slice(0, -1)}Words`], wordsOf(run, sentence, axis), state);
  }

  // Returns the index of the token of the pinned row, null without one. In a row of a word with several tokens it is the
  // one that the user chose, or else the first.
  chosenToken(column, sentence) {
    const pinned = /^r(\d+)$/.exec(this.panel.store.state.pin ?? ""), chosen = this.panel.case.chosen;
    const group = pinned && this.groups(column, sentence, "rows")[Number(pinned[1])];
    if (!group?.length) return null;
    return chosen?.column === column && group.includes(chosen.place) ? chosen.place : group[0];
  }

  // Returns what is known of the chosen word, the token of index `place` among the rows: the query, keys and values of
  // the shown head, and, of a translation, the alternatives and the parts of scores and logit.
  drawWord(asked, column, place) {
    const { store, backend, columns } = this.panel, { site, layer, head } = store.state, at = store.sites[site].weighedAt;
    const { run, changed } = columns[column], facts = asked.facts(run, changed), { sentence } = facts;
    const inTarget = store.sites[site].axes[0] === "target", token = nameToken((inTarget ? sentence.target : sentence.source)[place]);
    const before = place && inTarget ? nameToken(sentence.target[place - 1]) : "<s>";
    const box = htmlElement("section", { class: "word", "aria-label": say("live.word", { word: token }) });
    const title = htmlElement("div", { class: "word-title" });
    title.append(htmlElement("h2", { dir: "auto" }, token), makeButton("×", { title: say("live.word.close"), "aria-label": say("live.word.close") }, () => store.set({ pin: null })));
    box.append(title, htmlElement("p", { class: "asks" }, say(inTarget ? `live.asks.${at}` : "live.asks.encoder_self", { word: token, before })));
    const question = asked.rowQuestion(run, at, layer, head, place), of = backend.runs[run];
    if (!changed && backend.row && of.stepped?.includes(at)) box.append(head === "mean" ? this.drawHeadChoice(column) : this.drawVectors(asked, question, inTarget ? before : token));
    if (inTarget) box.append(this.drawAlternatives(asked, run, facts, place));
    if (inTarget && backend.split && !changed && "cross" in of.heads) {
      box.append(this.filledWhenOpen("logit", say("live.logit"), () => asked.explained(backend, "split", asked.logitQuestion(run, place)), drawLogit));
    }
    if (!changed && backend.explain && of.explained?.includes(at) && head !== "mean") {
      box.append(this.filledWhenOpen("score", say("live.why"), () => asked.explained(backend, "explain", question), (parts) => this.drawScore(column, sentence, parts, place)));
    }
    if (inTarget && backend.rows) box.append(this.drawMoving(asked, column, place));
    return box;
  }

  drawVectors(asked, question, word) {
    const part = htmlElement("div", { class: "vectors-part" });
    this.fill(part, () => asked.explained(this.panel.backend, "row", question), (facts) => drawVectors(facts, word));
    return part;
  }

  // Returns a line that offers the heads of the layer, because their mean has no query.
  drawHeadChoice() {
    const line = htmlElement("p", { class: "head-choice" }, `${say("live.choose_head")} `);
    for (const head of [...Array(this.panel.store.size()[1]).keys()]) line.append(makeButton(String(head), { "aria-label": say("live.head_number", { head }) }, () => this.panel.store.set({ head })));
    return line;
  }

  drawAlternatives(asked, run, facts, place) {
    const details = this.folded("alternatives", say("live.alternatives")), goOn = (id, token) => {
      const ids = [...facts.ids.slice(0, place), id];
      const text = [...facts.sentence.target.slice(0, place), token].map(spellToken).join("").trim();
      this.panel.edit(run, (edits) => edits.setPrefix(ids, text));
    };
    details.append(htmlElement("p", {}, say("live.alternatives.hint")), drawAlternatives(facts.alternatives[place], facts.ids[place], goOn));
    return details;
  }

  // Returns the parts of the scores of a row, for the key that the user has clicked, or else the one of most weight.
  drawScore(column, sentence, facts, place) {
    const { store } = this.panel, { site, layer, head, id, pin } = store.state;
    const weights = store.matrix(column, id, site, layer, head)[place], clicked = this.cell && pin === `r${this.cell.row}` ? this.cell : null;
    const among = (clicked ? this.groups(column, sentence, "columns")[clicked.column] : [...facts.keys.keys()]).filter((key) => key < facts.keys.length);
    const strongest = among.reduce((best, key) => (best === null || weights[key] > weights[best] ? key : best), null) ?? 0;
    return drawWhy(facts, clicked?.key ?? strongest, (key) => { this.cell = { ...(this.cell ?? { row: Number(pin.slice(1)), column: 0 }), key }; });
  }

  // Returns a folded part with sliders for the weights of the shown head in the row of a token.
  drawMoving(asked, column, place) {
    const { store, backend, columns } = this.panel, { site, layer, head } = store.state, at = store.sites[site].weighedAt;
    const { run, changed } = columns[column], facts = asked.facts(run, changed);
    const details = this.folded("row", say("live.row")), heads = backend.runs[run].heads[at];
    if (!heads || head === "mean" || layer >= heads[0] || head >= heads[1]) {
      details.append(htmlElement("p", {}, say("live.row.choose")));
      return details;
    }
    const weights = store.matrix(column, asked.id, site === "norms" ? "cross" : site, layer, head)[place];
    const { columns: keys } = tokensOf(facts.sentence, store.sites[site].axes);
    details.append(
      htmlElement("p", {}, say("live.row.hint", { head: nameHead(at, layer, head) })),
      drawRow({
        keys, weights: [...weights], before: facts.alternatives[place],
        ask: async (moved) => {
          const row = { site: at, layer, head, query: place, weights: moved };
          return (await this.panel.request(asked.questionOf(run, facts, changed, row))).alternatives[place];
        },
      }),
    );
    return details;
  }
}
