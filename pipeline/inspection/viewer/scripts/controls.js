"use strict";
// The controls: what is shown, and which sentences are listed.

function fillControls(form, store, { sides, gold }) {
  const { state } = store;
  const add = (element, label, before) => {
    const wrapper = htmlElement("label");
    wrapper.append(...(before ? [`${label} `, element] : [element, ` ${label}`]));
    form.append(wrapper);
  };
  const select = (name, options, label) => {
    const element = htmlElement("select", { name });
    for (const [value, text] of options) element.append(htmlElement("option", { value }, text));
    element.addEventListener("change", () => store.set({ [name]: element.value }));
    add(element, label, true);
  };
  const toggle = (name, label) => {
    const element = htmlElement("input", { type: "checkbox", name });
    element.addEventListener("change", () => store.set({ [name]: element.checked }));
    add(element, label, false);
  };
  form.replaceChildren();
  select("site", Object.keys(store.runs[0]?.sites ?? {}).map((site) => [site, store.sites[site].title]), "attention");
  select("side", sides.map((side) => [side, `${side} tokens`]), "rows are labelled with");
  toggle("words", "words");
  toggle("hideEos", "without EOS, rows renormalised");
  toggle("lines", "lines");
  if (gold) toggle("gold", "gold links");
  showState(form, state);
}

// Sets every control to the state.
function showState(form, state) {
  for (const element of form.elements) {
    if (element.type === "checkbox") element.checked = state[element.name];
    else if (element.name in state) element.value = state[element.name];
  }
}

function fillFilters(form, store) {
  for (const [name, options] of [["sort", SORTS], ["only", FILTERS]]) {
    const element = form.querySelector(`#${name}`);
    for (const option of Object.keys(options)) element.append(htmlElement("option", { value: option }, option));
    element.addEventListener("change", () => store.set({ [name]: element.value }));
  }
  const search = form.querySelector("#search");
  search.addEventListener("input", () => store.set({ query: search.value }));
}
