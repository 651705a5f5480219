// Oneself: who, and the password.

import { Card, Stack, Table, Text, Title } from "@mantine/core";
import { notifications } from "@mantine/notifications";
import { useMe } from "../../api/queries";
import { Loaded } from "../../ui/Loaded";
import { PasswordForm } from "../../ui/PasswordForm";

export function Profile() {
  const me = useMe();
  return (
    <Loaded query={me}>
      {({ email, keyName, role, orgName, orgId, plan }) => (
        <Stack maw={520}>
          <Table aria-label="Profile" withTableBorder>
            <Table.Tbody>
              {[
                ["E-mail", email ?? keyName ?? ""],
                ["Role", role],
                ["Organization", `${orgName} (${orgId})`],
                ["Plan", plan],
              ].map(([label, value]) => (
                <Table.Tr key={label}>
                  <Table.Th scope="row" w={130}>
                    {label}
                  </Table.Th>
                  <Table.Td className="title">{value}</Table.Td>
                </Table.Tr>
              ))}
            </Table.Tbody>
          </Table>
          <Card withBorder padding="md">
            <Title order={2} size="h5" mb="xs">
              Password
            </Title>
            <Text size="sm" c="dimmed" mb="sm">
              A new password ends all other sessions of yours.
            </Text>
            <PasswordForm onDone={() => notifications.show({ message: "The password is changed." })} />
          </Card>
        </Stack>
      )}
    </Loaded>
  );
}
