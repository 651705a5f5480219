// The one way to show what is asked for: while it loads, when it fails, when there is nothing, and when it is there.

import { Alert, Button, Center, Skeleton, Stack, Text, Title } from "@mantine/core";
import type { UseQueryResult } from "@tanstack/react-query";
import type { ReactNode } from "react";
import { words } from "../api/client";

interface Props<T> {
  query: Pick<UseQueryResult<T>, "data" | "error" | "isFetching" | "refetch">;
  /** What to say instead of *children* when it returns anything. */
  empty?: (data: T) => ReactNode;
  children: (data: T) => ReactNode;
}

export function Loaded<T>({ query, empty, children }: Props<T>) {
  const { data, error, isFetching, refetch } = query;
  if (data === undefined && error)
    return (
      <Alert color="red" variant="outline" title="This could not be loaded" role="alert">
        <Text mb="sm">{words(error)}</Text>
        <Button size="xs" variant="default" loading={isFetching} onClick={() => void refetch()}>
          Try again
        </Button>
      </Alert>
    );
  if (data === undefined)
    return (
      <Stack gap="xs" role="status" aria-label="Loading">
        {Array.from({ length: 6 }, (_, index) => (
          <Skeleton key={index} height={28} />
        ))}
      </Stack>
    );
  return <>{empty?.(data) || children(data)}</>;
}

/** Nothing is there: say why, and what to do. */
export function Empty({ title, children, action }: { title: string; children?: ReactNode; action?: ReactNode }) {
  return (
    <Center py={48}>
      <Stack align="center" gap="xs" maw={440} ta="center">
        <Title order={2} size="h4">
          {title}
        </Title>
        {children && <Text c="dimmed">{children}</Text>}
        {action}
      </Stack>
    </Center>
  );
}
