// The one bundle: imported by the anywidget loader, inlined into exported pages.
import { bootPage } from "./page";

export { openEnvelope, unpack } from "./envelope";
export { mount } from "./viewer";

bootPage(document);
