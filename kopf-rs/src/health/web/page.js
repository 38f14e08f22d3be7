// Refreshes the page: fetches it again, and replaces the sections that have changed. Texts of the cluster stay escaped, because the
// server writes the markup and this script only moves it.
'use strict';
(() => {
  const seconds = location.pathname.endsWith('/object') ? 10 : 5;
  const connection = document.getElementById('connection');
  const button = document.createElement('button');
  let paused = false;
  let lost = null;

  function say(text) {
    if (connection.textContent !== text) connection.textContent = text;
  }

  function show() {
    button.textContent = paused ? 'Continue updates' : 'Pause updates';
    if (paused) say('Updates are paused.');
    else if (lost) say(`The operator has not answered since ${lost}. Trying again every ${seconds} seconds.`);
    else say(`Updated every ${seconds} seconds.`);
  }

  // The form is left alone, since somebody may be typing.
  function replace(fresh) {
    const focused = document.activeElement;
    const [id, href] = [focused?.id, focused?.getAttribute('href')];
    for (const part of document.querySelectorAll('#news, main > section:not(#find)')) {
      const next = fresh.getElementById(part.id);
      if (!next || next.innerHTML === part.innerHTML) continue;
      const held = part.contains(focused);
      const selection = getSelection();
      if (!selection.isCollapsed && selection.containsNode(part, true)) continue;
      const scrolled = [...part.querySelectorAll('.scroll')].map((it) => [it.id, it.scrollLeft]);
      part.replaceChildren(...document.importNode(next, true).childNodes);
      for (const [region, left] of scrolled) {
        const now = document.getElementById(region);
        if (now) now.scrollLeft = left;
      }
      if (!held) continue;
      const same = id ? document.getElementById(id) : [...part.querySelectorAll('a')].find((it) => it.getAttribute('href') === href);
      (same ?? document.getElementById('main')).focus({ preventScroll: true });
    }
  }

  async function refresh() {
    if (paused || document.hidden) return;
    try {
      const answer = await fetch(location.href, { cache: 'no-store' });
      if (!answer.ok) throw new Error(answer.statusText);
      const fresh = new DOMParser().parseFromString(await answer.text(), 'text/html');
      if (paused) return;
      lost = null;
      replace(fresh);
    } catch {
      lost ??= new Date().toLocaleTimeString();
    }
    show();
  }

  async function go() {
    await refresh();
    setTimeout(go, seconds * 1000);
  }

  button.type = 'button';
  button.addEventListener('click', () => {
    paused = !paused;
    show();
    refresh();
  });
  connection.after(button);
  document.addEventListener('visibilitychange', refresh);
  show();
  setTimeout(go, seconds * 1000);
})();
