"use strict";
// The list of sentences: drawn only where it is in sight.

const ROW_HEIGHT = 54; // as .row in style.css

class SentenceList {
  constructor(element, notes, choose) {
    this.notes = notes; // [{label, measure}]: shown beside each sentence
    this.element = element;
    this.choose = choose;
    this.sentences = [];
    this.current = null;
    this.space = htmlElement("div", { role: "presentation" });
    element.append(this.space);
    element.addEventListener("scroll", () => this.draw());
    element.addEventListener("click", ({ target }) => {
      const row = target.closest(".row");
      if (row) this.choose(Number(row.dataset.id));
    });
    new ResizeObserver(() => this.draw()).observe(element);
  }

  show(sentences) {
    this.sentences = sentences;
    this.space.style.height = `${sentences.length * ROW_HEIGHT}px`;
    this.draw();
  }

  select(id) {
    this.current = id;
    const place = this.sentences.findIndex((sentence) => sentence.id === id);
    const { scrollTop, clientHeight } = this.element;
    if (place >= 0 && (place * ROW_HEIGHT < scrollTop || (place + 1) * ROW_HEIGHT > scrollTop + clientHeight)) {
      this.element.scrollTop = place * ROW_HEIGHT - clientHeight / 3;
    }
    this.draw();
  }

  // The id of the sentence `step` rows further down the list, or null.
  neighbour(step) {
    const place = this.sentences.findIndex((sentence) => sentence.id === this.current);
    return this.sentences[place + step]?.id ?? null;
  }

  draw() {
    const first = Math.max(0, Math.floor(this.element.scrollTop / ROW_HEIGHT) - 5);
    const last = Math.min(this.sentences.length, first + Math.ceil(this.element.clientHeight / ROW_HEIGHT) + 10);
    const rows = this.sentences.slice(first, last).map((sentence, i) => {
      const row = htmlElement("li", {
        class: "row", role: "option", id: `sentence-${sentence.id}`, "data-id": sentence.id,
        "aria-selected": String(sentence.id === this.current), style: `top: ${(first + i) * ROW_HEIGHT}px`,
      });
      const facts = [`${sentence.id}`, `${sentence.source.length} tokens`];
      for (const { label, measure } of this.notes) facts.push(`${label} ${sentence.measures[measure].toFixed(2)}`);
      if (sentence.score !== null) facts.push(`BLEU ${sentence.score.toFixed(1)}`);
      if (sentence.truncated) facts.push("cut short");
      row.append(htmlElement("div", { class: "text", dir: "auto" }, sentence.sourceText || "(empty)"));
      row.append(htmlElement("div", { class: "note" }, facts.join(" · ")));
      return row;
    });
    this.space.replaceChildren(...rows);
    this.element.setAttribute("aria-activedescendant", this.current === null ? "" : `sentence-${this.current}`);
  }
}
