// SPDX-License-Identifier: Apache-2.0
import { PageHead } from '../ui/parts';

export default function Tree() {
	return <PageHead title="Tree" />;
}
