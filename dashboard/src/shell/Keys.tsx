// Keys: `/` goes to the page's filter, `g` and a letter to a page, `?` lists them.

import { Modal, Table } from "@mantine/core";
import { useDisclosure } from "@mantine/hooks";
import { useEffect, useRef } from "react";
import { useNavigate } from "react-router";
import { PAGES } from "./pages";

const CHORD_MS = 1_200; // between `g` and its letter

export function Keys() {
  const navigate = useNavigate();
  const [help, { open, close }] = useDisclosure();
  const leader = useRef(0);
  useEffect(() => {
    const press = (event: KeyboardEvent) => {
      const target = event.target as HTMLElement;
      const writing = target.isContentEditable || /^(INPUT|TEXTAREA|SELECT)$/.test(target.tagName);
      const occupied = writing || event.ctrlKey || event.metaKey || event.altKey;
      if (occupied || document.querySelector("[role=dialog]")) return;
      const page = PAGES.find(({ key }) => key === event.key);
      if (page && Date.now() - leader.current < CHORD_MS) void navigate(page.path);
      else if (event.key === "/") document.querySelector<HTMLElement>("[data-search]")?.focus();
      else if (event.key === "?") open();
      else {
        leader.current = event.key === "g" ? Date.now() : 0;
        return;
      }
      leader.current = 0;
      event.preventDefault();
    };
    document.addEventListener("keydown", press);
    return () => document.removeEventListener("keydown", press);
  }, [navigate, open]);
  return (
    <Modal opened={help} onClose={close} title="Keys">
      <Table aria-label="Keys">
        <Table.Tbody>
          {[
            ["/", "Filter of the page"],
            ["Ctrl K", "Go to a page, an agent or a container"],
            ...PAGES.map(({ key, label }) => [`g ${key}`, label]),
            ["?", "This list"],
          ].map(([keys, meaning]) => (
            <Table.Tr key={keys}>
              <Table.Td>
                <kbd>{keys}</kbd>
              </Table.Td>
              <Table.Td>{meaning}</Table.Td>
            </Table.Tr>
          ))}
        </Table.Tbody>
      </Table>
    </Modal>
  );
}
