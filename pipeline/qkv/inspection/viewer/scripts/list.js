"use strict";
// The list of sentences, drawn only where it is in sight: its orders, and filters of what it shows.

const SORTS = {
  "as in the file": (sentence) => sentence.id,
  "worst score first": (sentence) => sentence.score ?? 0,
  "least likely first": (sentence) => sentence.likelihood,
  "longest source first": (sentence) => -sentence.source.length,
};

// Orders by measures, as the page's data name them: lowest values first where the sign is 1, highest where it is -1.
function addOrders(orders) {
  for (const { label, measure, sign } of orders) SORTS[label] = (sentence) => sign * sentence.measures[measure];
}

const FILTERS = {
  "all": () => true,
  "cut short": (sentence) => sentence.truncated,
  "different from the reference": (sentence) => sentence.reference !== null && sentence.reference !== sentence.hypothesis,
  "equal to the reference": (sentence) => sentence.reference !== null && sentence.reference === sentence.hypothesis,
  "with words hardly attended to": (sentence) => sentence.underAttended !== "",
  "with gold links": (sentence) => sentence.gold.length > 0,
};

function chosenSentences(sentences, { query, sort, only }) {
  const wanted = query.trim().toLowerCase();
  const texts = ({ id, sourceText, reference, hypothesis }) => [String(id), sourceText, reference ?? "", hypothesis];
  const found = sentences.filter(
    (sentence) => FILTERS[only](sentence) && (wanted === "" || texts(sentence).some((text) => text.toLowerCase().includes(wanted))),
  );
  const key = SORTS[sort];
  return found.sort((one, other) => key(one) - key(other) || one.id - other.id);
}

const ROW_HEIGHT = 54; // as .row in style.css

class SentenceList {
  constructor(element, notes, choose) {
    this.notes = notes; // [{label, measure}]: shown beside each sentence
    this.element = element;
    this.choose = choose;
    this.sentences = [];
    this.query = ""; // hits are marked
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

  // The id of the sentence `step` rows further down the list, or null.
  neighbour(step) {
    const place = this.sentences.findIndex((sentence) => sentence.id === this.current);
    return this.sentences[place + step]?.id ?? null;
  }

  // The source, or the text that has the hit.
  drawText({ sourceText, hypothesis, reference }) {
    const hit = [sourceText, hypothesis, reference].find((text) => text && hitRanges(text, this.query).length);
    const text = hit ? cutBefore(hit, hitRanges(hit, this.query)[0].start) : sourceText || "(empty)";
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
      const facts = [`${sentence.id}`, `${sentence.source.length} tokens`];
      for (const { label, measure } of this.notes) facts.push(`${label} ${sentence.measures[measure].toFixed(2)}`);
      if (sentence.score !== null) facts.push(`BLEU ${sentence.score.toFixed(1)}`);
      if (sentence.truncated) facts.push("cut short");
      row.append(this.drawText(sentence));
      row.append(htmlElement("div", { class: "note" }, facts.join(" · ")));
      return row;
    });
    this.space.replaceChildren(...rows);
    this.element.setAttribute("aria-activedescendant", this.current === null ? "" : `sentence-${this.current}`);
  }
}

const SEEN_BEFORE = 16; // characters

// Leaves out the beginning of a text, so that a place far in it is seen in a narrow column.
function cutBefore(text, place) {
  const start = place <= SEEN_BEFORE ? 0 : text.indexOf(" ", place - SEEN_BEFORE);
  return start > 0 && start < place ? `…${text.slice(start)}` : text;
}
