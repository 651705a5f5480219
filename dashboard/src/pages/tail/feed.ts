// The lines of a live tail in the order of their arrival: the newest ones, drawn once a frame however many come.

import { matcher } from "../../ui/Search";

export interface Row {
  /** Counts all that came. */
  key: number;
  /** The colour of where it comes from, by number. */
  tone: number;
  source: string;
  time: string;
  stream: string;
  text: string;
  /** It stands for so many lines that are not there. */
  skipped?: number;
}

/** What is shown now. */
export interface View {
  rows: readonly Row[];
  /** Lines kept, shown or not. */
  kept: number;
  /** Lines that came since the view was held. */
  behind: number;
  /** Older lines had to go. */
  isFull: boolean;
}

const MOST_LINES = 10_000; // more than anybody reads back
const MOST_CHARACTERS = 20_000_000; // of them together: a line may have 64 KiB
const SLACK = 1.1; // over the bound before it is cut: moving all lines for each new one would cost more than drawing it
const NOTHING: View = { rows: [], kept: 0, behind: 0, isFull: false };

export class Feed {
  private rows: Row[] = [];
  private matching: Row[] = [];
  private matches = matcher("");
  private next = 0;
  private frame = 0;
  /** The first key that the held view does not have; null while it follows. */
  private heldAt: number | null = null;
  private lost = 0;
  private characters = 0;
  private isFull = false;
  private view = NOTHING;
  private watchers = new Set<() => void>();

  watch = (watcher: () => void) => {
    this.watchers.add(watcher);
    return () => void this.watchers.delete(watcher);
  };

  present = () => this.view;

  get isHeld() {
    return this.heldAt !== null;
  }

  add(row: Omit<Row, "key">) {
    const made = { ...row, key: this.next };
    this.next += 1;
    this.rows.push(made);
    if (this.isShown(made)) this.matching.push(made);
    this.characters += made.text.length;
    if (this.rows.length > MOST_LINES * SLACK || this.characters > MOST_CHARACTERS * SLACK) this.trim();
    this.later();
  }

  clear() {
    this.rows = [];
    this.matching = [];
    this.lost = 0;
    this.characters = 0;
    this.isFull = false;
    if (this.heldAt !== null) this.heldAt = this.next;
    this.draw(true);
  }

  /** Keep the view as it is, or follow again; what comes meanwhile is kept up to the bound. */
  hold(held: boolean) {
    if (held === (this.heldAt !== null)) return;
    this.heldAt = held ? this.next : null;
    if (!held && this.lost > 0) {
      const first = this.rows[0]!;
      this.rows.unshift({ ...first, key: first.key - 1, text: "", skipped: this.lost });
      this.lost = 0;
      this.filterAgain();
    }
    this.draw(!held);
  }

  filter(text: string) {
    this.matches = matcher(text);
    this.filterAgain();
    this.draw(true);
  }

  private isShown = (row: Row) => row.skipped !== undefined || this.matches(row.text, row.source);

  private filterAgain() {
    this.matching = this.rows.filter(this.isShown);
  }

  private trim() {
    let cut = 0;
    while (this.rows.length - cut > MOST_LINES || this.characters > MOST_CHARACTERS) {
      this.characters -= this.rows[cut]!.text.length;
      cut += 1;
    }
    const gone = this.rows.splice(0, cut);
    this.isFull = true;
    const first = this.rows[0]!.key;
    const heldAt = this.heldAt;
    if (heldAt !== null) this.lost += gone.filter(({ key }) => key >= heldAt).length;
    const kept = this.matching.findIndex(({ key }) => key >= first);
    this.matching.splice(0, kept < 0 ? this.matching.length : kept);
  }

  private later() {
    this.frame ||= requestAnimationFrame(() => {
      this.frame = 0;
      this.draw(this.heldAt === null);
    });
  }

  private draw(anew: boolean) {
    const heldAt = this.heldAt;
    const rows = !anew
      ? this.view.rows
      : heldAt === null
        ? this.matching.slice()
        : this.matching.filter(({ key }) => key < heldAt);
    this.view = { rows, kept: this.rows.length, behind: heldAt === null ? 0 : this.next - heldAt, isFull: this.isFull };
    this.watchers.forEach((watcher) => watcher());
  }
}
