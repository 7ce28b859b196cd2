// The service worker: the browser starts it for each message, also when no page of the site is open.

self.addEventListener("push", (event) => event.waitUntil(receive(event.data.json())));

// receive shows what pacer sent. The tag is the same when a message comes twice, or replaces one with the same collapse_key, so that
// it is shown once.
async function receive({ title, body, data, tag }) {
  await self.registration.showNotification(title, { body, data, tag });
  for (const page of await self.clients.matchAll({ type: "window", includeUncontrolled: true })) {
    page.postMessage({ title, body });
  }
}

self.addEventListener("notificationclick", (event) => {
  event.notification.close();
  event.waitUntil(self.clients.openWindow("/"));
});
