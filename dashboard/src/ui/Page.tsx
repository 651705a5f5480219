// The frame of every page: its title, its tools, its content.

import { Group, Title } from "@mantine/core";
import { useDocumentTitle } from "@mantine/hooks";
import type { ReactNode } from "react";

interface Props {
  title: string;
  /** What stands before the title. */
  before?: ReactNode;
  /** Filters and actions. */
  tools?: ReactNode;
  children: ReactNode;
}

export function Page({ title, before, tools, children }: Props) {
  useDocumentTitle(`${title} · monitor`);
  return (
    <>
      {before}
      <Group justify="space-between" mb="md" gap="sm">
        <Title order={1} size="h3" className="title">
          {title}
        </Title>
        {tools && <Group gap="xs">{tools}</Group>}
      </Group>
      {children}
    </>
  );
}
