"use strict";
// Orders of the list and filters of what it shows.

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
