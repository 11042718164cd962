// SPDX-License-Identifier: Apache-2.0
// answer.mjs - what a command says that thinks for longer than one call to the API may last
import { randomUUID } from "node:crypto";
import { until } from "./serving.mjs";

const quote = (word) => `'${String(word).replaceAll("'", `'\\''`)}'`;

/** stdout of a command that must succeed; who: a VM, or a user of one (vm.user()), in whose home the answer is put together. */
export async function answer(who, home, command) {
  const dir = `${home}/.answer-${randomUUID()}`;
  const read = async (name) => (await who.exec(`cat ${dir}/${name} 2>/dev/null || true`)).stdout.trim();
  const whole = `(${command}) </dev/null >${dir}/said 2>${dir}/errors; echo $? >${dir}/new; mv ${dir}/new ${dir}/status`;
  const started = await who.exec(`mkdir -p ${dir} && { HOME=${home} setsid sh -c ${quote(whole)} </dev/null >/dev/null 2>&1 & }`);
  if (started.statusCode !== 0) throw new Error(started.stderr);
  const status = await until("the answer", () => read("status"));
  const [said, errors] = [await read("said"), await read("errors")];
  await who.exec(`rm -r ${dir}`);
  if (status !== "0") throw new Error(`it ended with ${status}: ${errors || said}`);
  return said;
}
