// Loads the page again when there is a newer email, and only then: somebody may be
// reading or have the focus on a link.
"use strict";
const newest = document.body.dataset.newest;
setInterval(async () => {
  if (document.hidden) return;
  try {
    const answer = await fetch("mail/messages?limit=1");
    const emails = await answer.json();
    if (emails.length > 0 && emails[0].id !== newest) location.reload();
  } catch {
    // The program is away; it may come back.
  }
}, 2000);
