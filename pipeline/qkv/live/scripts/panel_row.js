"use strict";
// One row of a head's weights that can be moved by hand: a slider for each key, the others share what is left.

const SETTLED = 120; // milliseconds after the last movement

// Sets one weight; the others keep their proportions, and all together make one.
function moveWeight(weights, place, value) {
  const rest = weights.reduce((sum, weight, i) => (i === place ? sum : sum + weight), 0);
  const scale = rest > 0 ? (1 - value) / rest : 0;
  return weights.map((weight, i) => (i === place ? value : rest > 0 ? weight * scale : (1 - value) / (weights.length - 1)));
}

// `ask(weights)` promises the alternatives at the row with these weights.
function drawRow({ keys, weights, before, ask }) {
  const box = htmlElement("div", { class: "moving" }), sliders = htmlElement("div", { class: "sliders" });
  const result = htmlElement("div", { "aria-live": "polite" });
  let now = [...weights], timer = null, asked = 0;
  const inputs = keys.map((key, place) => {
    const label = htmlElement("label", {}), input = htmlElement("input", { type: "range", min: 0, max: 1, step: 0.01, "aria-label": `weight of ${key}` });
    const share = htmlElement("output", {});
    input.addEventListener("input", () => move(place, Number(input.value)));
    label.append(htmlElement("span", { dir: "auto" }, spellToken(key).trim() || key), input, share);
    sliders.append(label);
    return { input, share };
  });
  const show = () => inputs.forEach(({ input, share }, place) => {
    input.value = now[place];
    share.textContent = now[place].toFixed(2);
  });
  const move = (place, value) => {
    now = moveWeight(now, place, value);
    show();
    clearTimeout(timer);
    timer = setTimeout(tell, SETTLED);
  };
  const tell = async () => {
    const number = ++asked;
    try {
      const alternatives = await ask(now.map((weight) => Math.min(1, Math.max(0, weight))));
      if (number === asked) result.replaceChildren(drawAlternatives(alternatives, null, null, before));
    } catch (error) {
      result.replaceChildren(htmlElement("p", { class: "warning" }, error.message));
    }
  };
  const reset = htmlElement("button", { type: "button" }, "As the model has it");
  reset.addEventListener("click", () => {
    now = [...weights];
    show();
    result.replaceChildren();
    asked++;
  });
  show();
  box.append(sliders, reset, result);
  return box;
}
