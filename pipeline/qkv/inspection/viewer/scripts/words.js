"use strict";
// The words of the page, in the language of its reader. They come from words.csv, by their keys; no other script holds
// text that a person reads.

const LANGUAGES = ["en", "fr", "de"]; // the columns of words.csv

// Returns the language of the page: that of `?lang=` in its address, or else the first language of the browser that
// the table has.
function pageLanguage() {
  const asked = new URLSearchParams(location.search).get("lang");
  const wanted = [asked, ...navigator.languages].map((tag) => String(tag).toLowerCase().split("-")[0]);
  return wanted.find((language) => LANGUAGES.includes(language)) ?? LANGUAGES[0];
}

// Returns the words of a key. Each {name} in them stands for a value of `values`. A key with a `count` has two forms,
// "{count} sentence|{count} sentences". Numbers are written as the language writes whole numbers, and with two decimals
// for {name:2}.
function say(key, values = {}) {
  say.language ??= pageLanguage();
  say.table ??= JSON.parse(document.getElementById("words")?.textContent ?? "{}");
  const forms = say.table[key]?.[LANGUAGES.indexOf(say.language)];
  if (forms === undefined) throw new Error(`words.csv has no key ${key}`);
  const [one, other = one] = forms.split("|");
  const form = new Intl.PluralRules(say.language).select(values.count ?? 2) === "one" ? one : other;
  return form.replace(/\{(\w+)(?::(\d))?\}/g, (_, name, decimals) => {
    if (!(name in values)) throw new Error(`the words of ${key} need a value for ${name}`);
    return typeof values[name] === "number" ? sayNumber(values[name], decimals) : values[name];
  });
}

// Returns a number as the language of the page writes it. `decimals`: how many it has; undefined for a whole number.
function sayNumber(number, decimals) {
  say.language ??= pageLanguage();
  return number.toLocaleString(say.language, { minimumFractionDigits: decimals, maximumFractionDigits: decimals });
}

// Returns the text of `Words` of data.py: a text as it is, or [key, values].
function sayWords(words) {
  return typeof words === "string" ? words : say(...words);
}

// Sets the words of an element and of all elements in it: `data-say` holds the key of the text, `data-say-title`,
// `data-say-aria-label` and `data-say-placeholder` those of attributes. In a text, {name} stands for the child with
// `data-slot="name"`, which may have words of its own.
function sayAll(root) {
  for (const attribute of ["title", "aria-label", "placeholder"]) {
    root.querySelectorAll(`[data-say-${attribute}]`).forEach((element) => {
      element.setAttribute(attribute, say(element.getAttribute(`data-say-${attribute}`)));
    });
  }
  root.querySelectorAll("[data-say]").forEach((element) => {
    const slots = Object.fromEntries([...element.querySelectorAll(":scope > [data-slot]")].map((child) => [child.dataset.slot, child]));
    const marks = Object.fromEntries(Object.keys(slots).map((name) => [name, `\u0000${name}\u0000`]));
    const pieces = say(element.dataset.say, marks).split("\u0000");
    element.replaceChildren(...pieces.map((piece, place) => (place % 2 ? slots[piece] : piece)));
  });
}
