// API keys: made, shown once, revoked.

import { Alert, Button, Group, Modal, Stack, Table, Text, TextInput } from "@mantine/core";
import { useState } from "react";
import { answer, api, words, type ApiKey } from "../../api/client";
import { useChange, useKeys } from "../../api/queries";
import { Confirm } from "../../ui/Confirm";
import { CopyBlock } from "../../ui/Copy";
import { Empty, Loaded } from "../../ui/Loaded";
import { Ago } from "../../ui/zone";

export function Keys() {
  const keys = useKeys();
  const [name, setName] = useState("");
  const [doomed, doom] = useState<ApiKey | null>(null);
  const make = useChange((text: string) => answer(api.POST("/api/v1/settings/api-keys", { body: { name: text } })), "keys");
  const revoke = useChange(
    (id: string) => answer(api.DELETE("/api/v1/settings/api-keys/{id}", { params: { path: { id } } })),
    "keys",
  );
  return (
    <Stack>
      <form
        onSubmit={(event) => {
          event.preventDefault();
          make.mutate(name, { onSuccess: () => setName("") });
        }}
      >
        <Group align="flex-end" gap="xs">
          <TextInput
            label="Name of a new key"
            description="What it is for. A key may read everything, manage agents and write samples."
            value={name}
            onChange={(event) => setName(event.currentTarget.value)}
            error={make.error && words(make.error)}
            maxLength={200}
            required
          />
          <Button type="submit" loading={make.isPending}>
            Make a key
          </Button>
        </Group>
      </form>
      <Loaded
        query={keys}
        empty={(all) => all.length === 0 && <Empty title="No API keys">Agents and programs need one each.</Empty>}
      >
        {(all) => (
          <Table.ScrollContainer minWidth={480} scrollAreaProps={{ viewportProps: { tabIndex: 0 } }}>
            <Table aria-label="API keys">
              <Table.Thead>
                <Table.Tr>
                  <Table.Th scope="col">Name</Table.Th>
                  <Table.Th scope="col">Key</Table.Th>
                  <Table.Th scope="col">Made</Table.Th>
                  <Table.Th scope="col">Last used</Table.Th>
                  <Table.Th scope="col">Action</Table.Th>
                </Table.Tr>
              </Table.Thead>
              <Table.Tbody>
                {all.map((key) => (
                  <Table.Tr key={key.id}>
                    <Table.Td>{key.name}</Table.Td>
                    <Table.Td ff="monospace">{key.prefix}…</Table.Td>
                    <Table.Td>
                      <Ago at={key.createdAt} />
                    </Table.Td>
                    <Table.Td>
                      <Ago at={key.lastUsedAt} />
                    </Table.Td>
                    <Table.Td>
                      <Button
                        size="compact-xs"
                        variant="default"
                        onClick={() => doom(key)}
                        aria-label={`Revoke ${key.name}`}
                      >
                        Revoke
                      </Button>
                    </Table.Td>
                  </Table.Tr>
                ))}
              </Table.Tbody>
            </Table>
          </Table.ScrollContainer>
        )}
      </Loaded>
      <Modal opened={make.data !== undefined} onClose={make.reset} title={`The key ${make.data?.name ?? ""}`} size="lg">
        <Stack>
          <Alert variant="outline" color="yellow" title="Copy it now: it is shown this once">
            Whoever has it acts for this organization until it is revoked.
          </Alert>
          <CopyBlock text={make.data?.key ?? ""} label="The key" />
        </Stack>
      </Modal>
      {doomed && (
        <Confirm
          title={`Revoke the key ${doomed.name}?`}
          verb="Revoke"
          action={() => revoke.mutateAsync(doomed.id)}
          onClose={() => doom(null)}
        >
          <Text>Its next request is refused. Agents that have registered with it go on: they have tokens of their own.</Text>
        </Confirm>
      )}
    </Stack>
  );
}
