// The people of the organization and their roles.

import { Alert, Button, Group, Modal, NativeSelect, Stack, Table, Text, TextInput } from "@mantine/core";
import { notifications } from "@mantine/notifications";
import { useState } from "react";
import { answer, api, words, type Role, type User } from "../../api/client";
import { useChange, useMe, useUsers } from "../../api/queries";
import { Confirm } from "../../ui/Confirm";
import { CopyBlock } from "../../ui/Copy";
import { Loaded } from "../../ui/Loaded";
import { Ago } from "../../ui/zone";

const ROLES: { value: Role; label: string }[] = [
  { value: "viewer", label: "viewer: sees everything" },
  { value: "member", label: "member: and changes rules, policies and agents" },
  { value: "admin", label: "admin: and users, keys, limits" },
];

export function Users() {
  const users = useUsers();
  const me = useMe();
  const [fields, setFields] = useState<{ email: string; role: Role }>({ email: "", role: "viewer" });
  const [doomed, doom] = useState<User | null>(null);
  const make = useChange(
    (body: { email: string; role: Role }) => answer(api.POST("/api/v1/settings/users", { body })),
    "users",
  );
  const change = useChange(
    ({ id, role }: { id: string; role: Role }) =>
      answer(api.PUT("/api/v1/settings/users/{id}", { params: { path: { id } }, body: { role } as never })),
    "users",
    "me",
  );
  const remove = useChange(
    (id: string) => answer(api.DELETE("/api/v1/settings/users/{id}", { params: { path: { id } } })),
    "users",
  );
  const refuse = (error: unknown) => notifications.show({ color: "red", message: words(error) });
  return (
    <Stack>
      <form
        onSubmit={(event) => {
          event.preventDefault();
          make.mutate(fields, { onSuccess: () => setFields({ email: "", role: "viewer" }) });
        }}
      >
        <Group align="flex-end" gap="xs">
          <TextInput
            label="E-mail of a new user"
            type="email"
            value={fields.email}
            onChange={(event) => setFields({ ...fields, email: event.currentTarget.value })}
            error={make.error && words(make.error)}
            required
          />
          <NativeSelect
            label="Role"
            value={fields.role}
            onChange={(event) => setFields({ ...fields, role: event.currentTarget.value as Role })}
            data={ROLES}
          />
          <Button type="submit" loading={make.isPending}>
            Make a user
          </Button>
        </Group>
      </form>
      <Loaded query={users}>
        {(all) => (
          <Table.ScrollContainer minWidth={480} scrollAreaProps={{ viewportProps: { tabIndex: 0 } }}>
            <Table aria-label="Users">
              <Table.Thead>
                <Table.Tr>
                  <Table.Th scope="col">E-mail</Table.Th>
                  <Table.Th scope="col">Role</Table.Th>
                  <Table.Th scope="col">Made</Table.Th>
                  <Table.Th scope="col">Action</Table.Th>
                </Table.Tr>
              </Table.Thead>
              <Table.Tbody>
                {all.map((user) => (
                  <Table.Tr key={user.id}>
                    <Table.Td>
                      {user.email}
                      {user.mustChangePassword && (
                        <Text size="xs" c="dimmed">
                          has not chosen a password yet
                        </Text>
                      )}
                    </Table.Td>
                    <Table.Td>
                      <NativeSelect
                        size="xs"
                        aria-label={`Role of ${user.email}`}
                        value={user.role}
                        onChange={(event) =>
                          change.mutate(
                            { id: user.id, role: event.currentTarget.value as Role },
                            { onError: refuse },
                          )
                        }
                        data={ROLES.map(({ value }) => value)}
                      />
                    </Table.Td>
                    <Table.Td>
                      <Ago at={user.createdAt} />
                    </Table.Td>
                    <Table.Td>
                      {user.id === me.data?.id ? (
                        <Text size="sm" c="dimmed">
                          you
                        </Text>
                      ) : (
                        <Button
                          size="compact-xs"
                          variant="default"
                          onClick={() => doom(user)}
                          aria-label={`Delete ${user.email}`}
                        >
                          Delete
                        </Button>
                      )}
                    </Table.Td>
                  </Table.Tr>
                ))}
              </Table.Tbody>
            </Table>
          </Table.ScrollContainer>
        )}
      </Loaded>
      <Modal opened={make.data !== undefined} onClose={make.reset} title={make.data?.email ?? ""} size="lg">
        <Stack>
          <Alert variant="outline" color="yellow" title="Pass this password on now: it is shown this once">
            It works for one login, which asks for a new one.
          </Alert>
          <CopyBlock text={make.data?.password ?? ""} label="The one-time password" />
        </Stack>
      </Modal>
      {doomed && (
        <Confirm
          title={`Delete ${doomed.email}?`}
          verb="Delete"
          action={() => remove.mutateAsync(doomed.id)}
          onClose={() => doom(null)}
        >
          <Text>Their sessions end with their next request.</Text>
        </Confirm>
      )}
    </Stack>
  );
}
