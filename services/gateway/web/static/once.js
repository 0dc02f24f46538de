// What the answer to a form shows is shown once: a reload leads to where it came from, and sends nothing again.
history.replaceState(null, "", document.getElementById("main").dataset.back);
