"use strict";
// The table: the picture as text.

// Lists for each row the column with the largest weight; `probabilities` are of the tokens, or null.
function drawTable(shown, probabilities, caption) {
  const table = htmlElement("table");
  if (caption) table.append(htmlElement("caption", {}, caption));
  const head = htmlElement("tr");
  for (const [text, kind] of [["word", ""], ["most attended word", ""], ["weight", "number"], ["probability", "number"]]) {
    if (text !== "probability" || probabilities) head.append(htmlElement("th", { scope: "col", class: kind }, text));
  }
  table.append(head);
  shown.matrix.forEach((row, t) => {
    let best = 0;
    row.forEach((weight, s) => { if (weight > row[best]) best = s; });
    const line = htmlElement("tr");
    for (const word of [shown.rows[t], row.length ? shown.columns[best] : ""]) line.append(htmlElement("td", { dir: "auto" }, word));
    line.append(htmlElement("td", { class: "number" }, row.length ? row[best].toFixed(4) : ""));
    if (probabilities) line.append(htmlElement("td", { class: "number" }, Math.exp(probabilities[t]).toFixed(3)));
    table.append(line);
  });
  return table;
}
