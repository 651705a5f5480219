// The password change that a one-time password leads to.

import { Text } from "@mantine/core";
import { useDocumentTitle } from "@mantine/hooks";
import { Navigate, useNavigate } from "react-router";
import { ApiError } from "../../api/client";
import { useMe } from "../../api/queries";
import { Door } from "../../ui/Door";
import { PasswordForm } from "../../ui/PasswordForm";

export default function Password() {
  useDocumentTitle("New password · monitor");
  const me = useMe();
  const navigate = useNavigate();
  if (me.error instanceof ApiError && me.error.status === 401) return <Navigate to="/login" replace />;
  return (
    <Door title="Choose a new password">
      <Text size="sm" c="dimmed" mb="md">
        The one you logged in with was for this once.
      </Text>
      <PasswordForm onDone={() => void navigate("/", { replace: true })} />
    </Door>
  );
}
