-- restore counts admissions that were made before the partition lost its state, so that the limits still hold.
--
-- KEYS[1]   the partition's prefix
-- ARGV[1]   token of the rebuild that the partition must be in
-- ARGV[2]   category
-- ARGV[3]   user
-- ARGV[4]   how many admissions
-- ARGV[5…]  their moments in µs, oldest first, and after a space the channel, if a cap needs it; then the plan, see
--           read_plan
--
-- Result    1
if redis.call('GET', partition .. 'rebuild') ~= ARGV[1] then
  return redis.error_reply('NOEPOCH the partition is in another rebuild')
end
local n = tonumber(ARGV[4])
local plan = plan_of(5 + n, ARGV[2], ARGV[3])
-- The category tells tokens of the same moment apart in the logs of caps: one round grants in several categories at the
-- same moment.
local name = redis.sha1hex(ARGV[2])
for i = 1, n do
  local at, channel = string.match(ARGV[4 + i], '^(%d+) ?(.*)$')
  plan.channel = channel ~= '' and channel
  charge(plan, now, tonumber(at), '~' .. at .. '#' .. i .. string.sub(name, 1, 16))
end
return 1
