"use strict";
// Which words of two texts differ, and which are repeated.

// The places of the words of each list that are not in their longest common subsequence: [Set, Set].
function differences(one, other) {
  const lengths = Array.from({ length: one.length + 1 }, () => new Uint16Array(other.length + 1));
  for (let i = one.length - 1; i >= 0; i--) {
    for (let j = other.length - 1; j >= 0; j--) {
      lengths[i][j] = one[i] === other[j] ? lengths[i + 1][j + 1] + 1 : Math.max(lengths[i + 1][j], lengths[i][j + 1]);
    }
  }
  const left = new Set(one.keys()), right = new Set(other.keys());
  for (let i = 0, j = 0; i < one.length && j < other.length; ) {
    if (one[i] === other[j]) {
      left.delete(i++);
      right.delete(j++);
    } else if (lengths[i + 1][j] >= lengths[i][j + 1]) i++;
    else j++;
  }
  return [left, right];
}

const LONGEST_REPETITION = 4; // words

// The places of words that say at once again what was just said, one to four words of it: "the the", "of a of a".
function repetitions(words) {
  const repeated = new Set();
  for (let length = 1; length <= LONGEST_REPETITION; length++) {
    for (let start = length; start + length <= words.length; start++) {
      const places = Array.from({ length }, (_, i) => start + i);
      if (places.every((place) => words[place] === words[place - length])) places.forEach((place) => repeated.add(place));
    }
  }
  return repeated;
}
