// SPDX-License-Identifier: MIT
//
// The theme searches in a Worker, which browsers refuse to pages that are opened as files.
// There, this is one: a hidden frame, which has the page's origin, runs the worker's script.
"use strict";
if (location.protocol === "file:") {
  // The worker asks its parent for the first name, and the page for the second.
  window.IFrameWorker = window.Worker = class extends EventTarget {
    constructor(url) {
      super();
      const frame = document.createElement("iframe");
      frame.hidden = true;
      frame.srcdoc =
        "<script>" +
        "self.postMessage = (data) => frameElement.dispatchEvent(new MessageEvent('worker', { data }));" +
        "self.importScripts = (...all) => all.reduce((before, src) => before.then(() => new Promise((done, failed) => {" +
        "const script = document.createElement('script');" +
        "Object.assign(script, { src, onload: done, onerror: () => failed(new Error(src)) });" +
        "document.head.append(script); })), Promise.resolve());" +
        "</" + "script><script src='" + encodeURI(url) + "'></" + "script>";
      frame.addEventListener("worker", (event) => {
        const message = new MessageEvent("message", { data: event.data });
        this.dispatchEvent(message);
        if (this.onmessage) this.onmessage(message);
      });
      this.ready = new Promise((done) => frame.addEventListener("load", done, { once: true }));
      this.frame = frame;
      const add = () => document.body.append(frame);
      document.body ? add() : addEventListener("DOMContentLoaded", add);
    }
    postMessage(data) {
      this.ready.then(() => this.frame.contentWindow.dispatchEvent(new MessageEvent("message", { data })));
    }
    terminate() {
      this.frame.remove();
    }
  };
}
