"use strict";
// The section `answer`: what queries, keys and values are, in three sentences, a formula, and the reader's own sentence.

function drawAnswer(page, root) {
  const cards = htmlElement("div", { class: "cards" }), formula = drawFormula();
  root.append(htmlElement("p", { class: "lead" }, say("explain.answer.lead")), cards, htmlElement("p", {}, say("explain.answer.matrices")), formula, drawText(say("explain.answer.formula")));
  const draw = () => {
    const inside = page.inside(), { key } = page.chosen, { asks, keys } = page.sides();
    const named = { query: asks, key: keys[key], value: keys[key] };
    const vectors = { query: inside.query, key: inside.keys[key], value: inside.values[key] };
    cards.replaceChildren(...Object.keys(vectors).map((role) => {
      const card = htmlElement("div", { class: `card ${role}` }), name = drawToken(page, named[role].piece, named[role].side);
      const of = htmlElement("p", { class: "quiet" });
      of.append(...saidWith(`explain.answer.${role}.of`, { token: name }));
      card.append(
        htmlElement("h3", {}, say(`explain.${role}`)), htmlElement("p", {}, say(`explain.answer.${role}`)),
        drawVector(vectors[role], { role, label: say(`explain.answer.${role}.of`, { token: tokenText(named[role].piece) }) }), of,
      );
      return card;
    }));
  };
  draw();
  page.subscribe(draw);
}

// Returns the formula of attention.
function drawFormula() {
  const formula = htmlElement("p", { class: "formula", role: "math", "aria-label": say("explain.formula.spoken") }), letters = { Q: "query", K: "key", V: "value" };
  for (const part of ["softmax( ", "Q", " ", "K", "ᵀ", " / √d", "k", " + M ) ", "V"]) {
    if (letters[part]) formula.append(htmlElement("b", { class: letters[part] }, part));
    else formula.append(part === "k" ? htmlElement("sub", {}, "k") : part);
  }
  return formula;
}
