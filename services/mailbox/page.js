// Loads the page again when there is a newer letter, and only then: somebody may be
// reading or have the focus on a link.
"use strict";
const newest = document.body.dataset.newest;
setInterval(async () => {
  if (document.hidden) return;
  try {
    const answer = await fetch("mail/messages?limit=1");
    const letters = await answer.json();
    if (letters.length > 0 && letters[0].id !== newest) location.reload();
  } catch {
    // The program is away; it may come back.
  }
}, 2000);
