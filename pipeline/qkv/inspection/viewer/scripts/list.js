"use strict";
// The list of sentences, its orders and its filters. Only the visible rows are drawn.

const SORTS = {
  file: (sentence) => sentence.id,
  score: (sentence) => sentence.score ?? 0,
  likelihood: (sentence) => sentence.likelihood,
  length: (sentence) => -sentence.source.length,
};

const SORT_LABELS = {}; // those that are not in words.csv

// Adds orders by measures, such as "entropy.lowest"; see `measure_places` in data.py.
function addOrders(orders) {
  for (const { measure, first, label } of orders) {
    const sign = first === "lowest" ? 1 : -1, sort = `${measure}.${first}`;
    SORTS[sort] = (sentence) => sign * sentence.measures[measure];
    if (label !== true) SORT_LABELS[sort] = label;
  }
}

// Whether the confidence of a translation is known: the page of a run that has none shows nothing of it.
const hasConfidence = ({ confidence }) => typeof confidence === "number";

const FILTERS = {
  all: () => true,
  truncated: (sentence) => sentence.truncated,
  different: (sentence) => sentence.reference !== null && sentence.reference !== sentence.hypothesis,
  equal: (sentence) => sentence.reference !== null && sentence.reference === sentence.hypothesis,
  dropped: (sentence) => sentence.underAttended !== "",
  gold: (sentence) => sentence.gold.length > 0,
};

// Returns the sentences that pass the filter `only` and contain the query, in the order `sort`.
function chosenSentences(sentences, { query, sort, only }) {
  const wanted = query.trim().toLowerCase();
  const texts = ({ id, sourceText, reference, hypothesis }) => [String(id), sourceText, reference ?? "", hypothesis];
  const matches = sentences.filter(
    (sentence) => FILTERS[only](sentence) && (wanted === "" || texts(sentence).some((text) => text.toLowerCase().includes(wanted))),
  );
  const key = SORTS[sort];
  return matches.sort((first, second) => key(first) - key(second) || first.id - second.id);
}

const ROW_HEIGHT = 54; // as .row in style.css

class SentenceList {
  constructor(element, notes, choose) {
    this.notes = notes; // [{measure, label}], the measures that are shown with each sentence
    this.element = element;
    this.choose = choose;
    this.sentences = [];
    this.query = ""; // its hits are marked
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

  show(sentences, query) {
    this.sentences = sentences;
    this.query = query;
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

  // Returns the id of the sentence `step` rows below the current one; null if there is none.
  neighbour(step) {
    const place = this.sentences.findIndex((sentence) => sentence.id === this.current);
    return this.sentences[place + step]?.id ?? null;
  }

  // Returns the source or, if only another text contains the query, that text; with its hits marked.
  drawText({ sourceText, hypothesis, reference }) {
    const hit = [sourceText, hypothesis, reference].find((text) => text && hitRanges(text, this.query).length);
    const text = hit ? cutBefore(hit, hitRanges(hit, this.query)[0].start) : sourceText || say("viewer.empty");
    return markText(htmlElement("div", { class: "text", dir: "auto" }), text, hitRanges(text, this.query));
  }

  draw() {
    const first = Math.max(0, Math.floor(this.element.scrollTop / ROW_HEIGHT) - 5);
    const last = Math.min(this.sentences.length, first + Math.ceil(this.element.clientHeight / ROW_HEIGHT) + 10);
    const rows = this.sentences.slice(first, last).map((sentence, i) => {
      const row = htmlElement("li", {
        class: "row", role: "option", id: `sentence-${sentence.id}`, "data-id": sentence.id,
        "aria-selected": String(sentence.id === this.current),
        "aria-setsize": this.sentences.length, "aria-posinset": first + i + 1, style: `top: ${(first + i) * ROW_HEIGHT}px`,
      });
      const facts = [`${sentence.id}`];
      if (hasConfidence(sentence)) facts.push(say("viewer.note.confidence", { value: sentence.confidence }));
      facts.push(say("viewer.note.tokens", { count: sentence.source.length }));
      for (const { measure, label } of this.notes) {
        const value = sentence.measures[measure];
        facts.push(label === true ? say(`viewer.note.${measure}`, { value }) : `${label} ${sayNumber(value, 2)}`);
      }
      if (sentence.score !== null) facts.push(say("viewer.fact.bleu", { score: sentence.score }));
      if (sentence.truncated) facts.push(say("viewer.note.truncated"));
      row.append(this.drawText(sentence));
      row.append(htmlElement("div", { class: "note" }, facts.join(" · ")));
      return row;
    });
    this.space.replaceChildren(...rows);
    const active = rows.find((row) => row.dataset.id === String(this.current));
    this.element.setAttribute("aria-activedescendant", active?.id ?? ""); // only a row that is drawn
  }
}

const SEEN_BEFORE = 16; // characters before a hit

// Returns a text without its beginning, so that the character at index `place` is visible in a narrow column.
function cutBefore(text, place) {
  const start = place <= SEEN_BEFORE ? 0 : text.indexOf(" ", place - SEEN_BEFORE);
  return start > 0 && start < place ? `…${text.slice(start)}` : text;
}
