// Search without a server: browsers start no workers from files, so there the worker's script runs in a hidden frame.
if (location.protocol === "file:") {
  const send = window.postMessage;
  window.Worker = class extends EventTarget {
    constructor(url) {
      super();
      const frame = document.createElement("iframe");
      frame.hidden = true;
      frame.title = "search";
      frame.srcdoc =
        '<script>postMessage = (data) => parent.postMessage(data, "*")</script>' +
        `<script src="${new URL(url, location.href)}"></script>`;
      this.ready = new Promise((resolve) => frame.addEventListener("load", () => resolve(frame.contentWindow)));
      addEventListener("message", (event) => {
        if (event.source === frame.contentWindow) this.dispatchEvent(new MessageEvent("message", { data: event.data }));
      });
      document.body.append(frame);
    }

    postMessage(data) {
      this.ready.then((worker) => send.call(worker, data, "*"));
    }
  };
}
