-- wake has agendas served again at once, because limits, preferences or the policy changed. If a category is named, it
-- first forgets the windows of that category, and those of the user's cap and of the category's named caps.
--
-- KEYS[1]  the partition's prefix
-- ARGV[1]  category whose windows are forgotten, and its named caps, parted by spaces; "" for none
-- ARGV[2]  1 when these users have limits of their own
-- ARGV[…]  users
--
-- Result   how many of the users have something that waits
local woken = 0
local names = {}
for name in string.gmatch(ARGV[1], '%S+') do names[#names + 1] = name end
for i = 3, #ARGV do
  local user = ARGV[i]
  if ARGV[1] ~= '' then
    local name = names[1] .. ':' .. user
    redis.call('UNLINK', partition .. 'l:' .. name, partition .. 'f:' .. name, partition .. 'b:' .. name,
      partition .. 'u:' .. user)
    for i = 2, #names do redis.call('UNLINK', partition .. 'cap:' .. names[i] .. ':' .. user) end
  end
  local agenda = open_agenda(user)
  if agenda.size > 0 then
    if ARGV[2] == '1' then mark_personal(agenda) end
    ensure_wakeup(agenda, now)
    woken = woken + 1
  end
end
write_changes()
return woken
