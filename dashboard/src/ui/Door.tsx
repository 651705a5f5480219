// The frame of the pages before the shell: login and password change.

import { Center, Group, Paper, Stack, Text, Title } from "@mantine/core";
import type { ReactNode } from "react";

export function Door({ title, children }: { title: string; children: ReactNode }) {
  return (
    <Center component="main" mih="100vh" p="md">
      <Stack w="100%" maw={380}>
        <Group gap="xs" justify="center">
          <img src="/favicon.svg" alt="" width={32} height={32} />
          <Text fw={700} size="xl">
            monitor
          </Text>
        </Group>
        <Paper withBorder p="lg">
          <Title order={1} size="h4" mb="md">
            {title}
          </Title>
          {children}
        </Paper>
      </Stack>
    </Center>
  );
}
