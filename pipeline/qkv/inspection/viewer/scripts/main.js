"use strict";
// Opens the page. Scripts that a page adds come after this one.

const viewer = new Viewer(JSON.parse(document.getElementById("data").textContent));
